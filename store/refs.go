package store

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// Refs returns the identities of the objects whose keys follow after, in key order, at most limit of them; see
// Interface.
func (c *Collection) Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error) {
	var refs []entry.ObjectRef
	err := c.viewObjects(ctx, func(objects *bolt.Bucket, over *captured) error {
		refs = nil
		s := scanOver(objects, over, after)
		for key, data, x, ok := s.next(); ok && len(refs) < limit; key, data, x, ok = s.next() {
			ref, err := c.refOf(key, data, x)
			if err != nil {
				return err
			}
			refs = append(refs, ref)
		}
		return s.err()
	})
	if err != nil {
		return nil, err
	}
	if r := c.inMemory(); r != nil {
		refs = r.Doubt(refs, after, limit)
	}
	return refs, nil
}

// refOf returns the identity from the write x, or, if x is nil, from the record, whose whole checksum it verifies.
func (r *reader) refOf(key string, data []byte, x *memtable.Write) (entry.ObjectRef, error) {
	if x != nil {
		return entry.ObjectRef{Key: key, UID: x.UID, ResourceVersion: x.RV}, nil
	}
	h, err := format.ParseHeader(r.name, key, data)
	return entry.ObjectRef{Key: key, UID: h.UID, ResourceVersion: h.RV}, err
}
