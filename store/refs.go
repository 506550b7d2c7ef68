package store

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/read"
)

// Refs returns the identities of the objects whose keys follow after, in key order, at most limit of them; see
// Interface.
func (c *Collection) Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error) {
	var refs []entry.ObjectRef
	err := c.read.ViewObjects(ctx, func(objects *bolt.Bucket, over *read.Captured) error {
		refs = nil
		s := read.ScanOver(objects, over, after)
		for key, data, x, ok := s.Next(); ok && len(refs) < limit; key, data, x, ok = s.Next() {
			ref, err := c.read.RefOf(key, data, x)
			if err != nil {
				return err
			}
			refs = append(refs, ref)
		}
		return s.Err()
	})
	if err != nil {
		return nil, err
	}
	if r := c.inMemory(); r != nil {
		refs = r.Doubt(refs, after, limit)
	}
	return refs, nil
}
