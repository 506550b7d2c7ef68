package cluster

import (
	"context"
	"time"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/bench/internal/load"
)

// Access holds the address and credentials of an API server, in a form that can be sent to another process.
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

// Cluster is one API server. It is not safe for concurrent use.
type Cluster interface {
	// Access returns the credentials of the only user, who has all rights.
	Access() Access
	// Load creates the objects 0 to n-1 of a kind, except existing ones.
	Load(ctx context.Context, kind load.Kind, n int) error
	// Change sets the revision annotation of the objects with these numbers. The last object is changed last. A real
	// server changes the others concurrently, the embedded server in order.
	Change(ctx context.Context, kind load.Kind, numbers []int, revision int) error
	// LoseHistory restarts the API server without its watch cache. The server then answers watches from older
	// resourceVersions with 410.
	LoseHistory(ctx context.Context) error
	// Asked returns the requests for a kind since the last call, or since the start.
	Asked(ctx context.Context, kind load.Kind) (Asked, error)
	// CPU returns the processor time of the server, and false if the server has no separate process.
	CPU() (time.Duration, bool)
	// Collect makes the API server's Go runtime run a garbage collection.
	Collect(ctx context.Context) error
	Version() string
	Close() error
}
