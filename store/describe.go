package store

import (
	"context"
	"reflect"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
)

// Describe stores how people name the resource of a collection, and what kubectl prints of it, where that has been
// learned after the collection was opened. What r does not say stays as it was: nil Categories and Columns are unknown,
// empty ones are none. Nothing is written if it is known. ErrNoCollection if there is no such collection.
func (s *Store) Describe(ctx context.Context, id entry.Identity, r entry.ResourceInfo) error {
	id, err := id.Canonical()
	if err != nil {
		return err
	}
	name, known := id.ID(), false
	err = s.view(ctx, func(tx *bolt.Tx) error {
		_, st, err := findState(tx, name)
		known = reflect.DeepEqual(st.Info.Resource, st.Info.Resource.With(r))
		return err
	})
	if err != nil || known {
		return err
	}
	return s.updateFor(ctx, "the description of "+id.String(), func(tx *bolt.Tx) error {
		return updateState(tx, name, func(_ *bolt.Bucket, st *state) error {
			st.Info.Resource = st.Info.Resource.With(r)
			return nil
		})
	})
}
