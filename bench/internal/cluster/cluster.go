package cluster

import (
	"context"
	"time"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/bench/internal/load"
)

// Access is what a client needs to connect, in a form that can be passed to another process.
type Access struct {
	Host  string
	Token string `json:",omitempty"`
	CA    []byte `json:",omitempty"`
}

func accessOf(c *rest.Config) Access { return Access{Host: c.Host, Token: c.BearerToken, CA: c.CAData} }

// Config returns the configuration of a client without a client-side rate limit.
func (a Access) Config() *rest.Config {
	return &rest.Config{
		Host: a.Host, BearerToken: a.Token, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA},
		UserAgent: "larder-bench", QPS: -1,
	}
}

// Cluster is one API server. Its methods are called by one goroutine.
type Cluster interface {
	// Access returns the credentials of the only user, who may do everything.
	Access() Access
	// Load creates the objects 0 to n-1 of a kind, except those that exist already.
	Load(ctx context.Context, kind load.Kind, n int) error
	// Change sets the revision of the objects with these numbers: the last number last, and on the embedded server the
	// others in order too.
	Change(ctx context.Context, kind load.Kind, numbers []int, revision int) error
	// LoseHistory restarts the server: it answers watches from before with 410.
	LoseHistory(ctx context.Context) error
	// Asked returns what has been asked for a kind since the last call, or since the start.
	Asked(ctx context.Context, kind load.Kind) (Asked, error)
	// CPU returns the processor time of the server. It returns false if the server has no process of its own.
	CPU() (time.Duration, bool)
	// Collect has the server collect its garbage.
	Collect(ctx context.Context) error
	// Version returns the version of the server, for the results.
	Version() string
	// Close stops the server.
	Close() error
}
