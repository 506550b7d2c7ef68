package store

import (
	"context"
	"reflect"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Describe stores a description of a collection's resource: its names and the columns that kubectl prints. Fields that
// r does not set keep their values. Nil Categories or Columns count as not set; empty slices count as set. Describe
// fails with ErrNoCollection if the file does not have the collection.
func (s *Store) Describe(ctx context.Context, id entry.Identity, r entry.ResourceInfo) error {
	id, err := id.Canonical()
	if err != nil {
		return err
	}
	name, known := id.ID(), false
	err = s.file.View(ctx, func(tx *bolt.Tx) error {
		_, st, err := engine.FindCollection(tx, name)
		known = reflect.DeepEqual(st.Info.Resource, st.Info.Resource.With(r))
		return err
	})
	if err != nil || known {
		return err
	}
	return s.file.Update(ctx, boltfile.Work{What: "the description of " + id.String()}, func(tx *bolt.Tx) error {
		return engine.UpdateState(tx, name, func(_ *bolt.Bucket, st *engine.CollectionState) error {
			st.Info.Resource = st.Info.Resource.With(r)
			return nil
		})
	})
}
