package snapshot_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

type memorySource []contentOf

func (m memorySource) Collections(context.Context) (out []snapshot.Collection, err error) {
	for _, c := range m {
		of := c.collection
		// Filter.Takes trusts Resource.Namespaced only if the collection has objects.
		of.Objects = max(of.Objects, len(c.records))
		out = append(out, of)
	}
	return out, nil
}

func (m memorySource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	i := slices.IndexFunc(m, func(c contentOf) bool { return c.collection.Identity.ID() == id.ID() })
	if i < 0 {
		return fmt.Errorf("%s: %w", id, snapshot.ErrNoCollection)
	}
	for _, r := range m[i].records {
		if err := fn(r); err != nil {
			return err
		}
	}
	return ctx.Err()
}
