package snapshot

import (
	"context"

	"github.com/larder-dev/larder/entry"
)

// Source is what collections can be read from: a File, or a store.
type Source interface {
	// Collections returns what there is, in any order. Resource.Namespaced of those that have Objects must be as their
	// keys are: what has stored them may not have known.
	Collections(ctx context.Context) ([]Collection, error)
	// Records calls fn with the records of a collection in the byte order of their keys, from the first one after the key
	// after; "" begins at the beginning. A payload is valid until fn returns. An error of fn ends it and is returned. An
	// identity that is not there fails with ErrNoCollection.
	Records(ctx context.Context, id entry.Identity, after string, fn func(entry.Entry) error) error
}
