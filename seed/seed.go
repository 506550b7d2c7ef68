package seed

import (
	"context"
	"time"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

// Source opens seeds. Its method may be called concurrently.
type Source interface {
	// Seed opens the contents for a Request; see the package's promises. It must return soon after ctx has ended.
	Seed(ctx context.Context, want Request) (*Seed, error)
}

// Request describes the contents that an informer asks for.
type Request struct {
	Identity entry.Identity
	// Cluster is the id of the server's cluster, as in entry.Attributes.ClusterID.
	Cluster string
	// Make constructs objects. Make.Takes reports whether it can do so for objects with a given entry.Attributes.Schema.
	Make *codec.Sent
	// After is Seed.Taken of a seed whose ResourceVersion was too old: the new seed must be newer. Zero allows any.
	After time.Time
}

// Seed is the contents of a collection. The informer must call Close.
type Seed struct {
	// Source names the origin in messages, without credentials.
	Source string
	// Taken is the last time at which the server is known to have had this state.
	Taken time.Time
	// ResourceVersion is where the watch resumes. It must be comparable with others (entry.ComparableRV).
	ResourceVersion string
	// Wire is the encoding in which the server sent the objects (entry.Attributes.Wire); "" if unknown.
	Wire string
	// OpenAPI is the hash of the schema with which the objects were listed (entry.Attributes.OpenAPI); "" if unknown.
	OpenAPI string
	// Objects calls fn with each object, in key order, at most once in total. It fails with fn's error, or because an
	// object cannot be read. After an error, the objects passed so far are incomplete and must not be used as a list.
	Objects func(ctx context.Context, fn func(*entry.Undecoded) error) error
	Close   func() error
}
