package cluster

import (
	"context"
	"time"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/bench/internal/load"
)

// Access is what a client needs, in a form that another process can be given.
type Access struct {
	Host  string
	Token string `json:",omitempty"`
	CA    []byte `json:",omitempty"`
}

func accessOf(c *rest.Config) Access { return Access{Host: c.Host, Token: c.BearerToken, CA: c.CAData} }

// Config returns the configuration of a client without a limit of its own.
func (a Access) Config() *rest.Config {
	return &rest.Config{
		Host: a.Host, BearerToken: a.Token, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA},
		UserAgent: "larder-bench", QPS: -1,
	}
}

// Cluster is one API server. Its methods are called by one goroutine.
type Cluster interface {
	// Access of its only user, who may do everything.
	Access() Access
	// Load creates the objects 0 to n-1 of a kind, those that are there already aside.
	Load(ctx context.Context, kind load.Kind, n int) error
	// Change makes objects say that they are of that revision: the last of the numbers last, and where the server is
	// embedded the others in order, too.
	Change(ctx context.Context, kind load.Kind, numbers []int, revision int) error
	// LoseHistory restarts the server: it answers watches from before with 410.
	LoseHistory(ctx context.Context) error
	// CPU is the processor time of the server. It is false if the server has no process of its own.
	CPU() (time.Duration, bool)
	// Version is for the results.
	Version() string
	// Close stops it.
	Close() error
}
