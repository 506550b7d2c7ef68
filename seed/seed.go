package seed

import (
	"context"
	"time"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

// Source opens seeds. Several goroutines may use it at a time.
type Source interface {
	// Seed opens the contents that an informer wants to begin with; the package documentation has what it promises. It
	// must return soon after ctx has ended.
	Seed(ctx context.Context, want Request) (*Seed, error)
}

// Request says what an informer wants to begin with.
type Request struct {
	// Identity is the collection's, canonical.
	Identity entry.Identity
	// Cluster is the id of the server's cluster.
	Cluster string
	// Make makes the objects. It knows by entry.Attributes.Schema whether it can (codec.Sent.Takes).
	Make *codec.Sent
	// After is Seed.Taken of one whose ResourceVersion was too old: a newer one is wanted. Zero is any.
	After time.Time
}

// Seed is the contents of a collection. Close must follow.
type Seed struct {
	// Source names it to people, without credentials.
	Source string
	// Taken is when the server was last known to have the objects in this state.
	Taken time.Time
	// ResourceVersion is where the watch goes on. It can be compared with others (entry.ComparableRV).
	ResourceVersion string
	// Wire is entry.Attributes.Wire of the objects; "" if it is not known.
	Wire string
	// OpenAPI is entry.Attributes.OpenAPI of the objects; "" if it is not known.
	OpenAPI string
	// Objects calls fn with each object, in key order. It fails with fn's error, or with why an object cannot be read:
	// then what has been passed to fn is part of a list, and does not count. It is called at most once.
	Objects func(ctx context.Context, fn func(*entry.Undecoded) error) error
	// Close gives the seed back.
	Close func() error
}
