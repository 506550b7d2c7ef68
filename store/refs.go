package store

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
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
		refs = r.doubt(refs, after, limit)
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

// doubt clears the UID and resourceVersion of the refs whose object in memory differs or is missing, and adds refs
// without them for objects that are only in memory.
func (r *allResident) doubt(refs []entry.ObjectRef, after string, limit int) []entry.ObjectRef {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []entry.ObjectRef
	r.table.Each(after, func(e *resident.Row) bool {
		for len(refs) > 0 && refs[0].Key < e.Key {
			out, refs = append(out, entry.ObjectRef{Key: refs[0].Key}), refs[1:]
		}
		switch {
		case len(refs) == 0 || refs[0].Key != e.Key:
			out = append(out, entry.ObjectRef{Key: e.Key})
		case !e.Now.Load().Is(refs[0]):
			out, refs = append(out, entry.ObjectRef{Key: e.Key}), refs[1:]
		default:
			out, refs = append(out, refs[0]), refs[1:]
		}
		return len(out) < limit
	})
	for _, ref := range refs {
		out = append(out, entry.ObjectRef{Key: ref.Key})
	}
	return out[:min(len(out), limit)]
}
