package write

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/state"
)

// Create creates a collection with the state st. It does nothing if the file has the collection.
func Create(tx *bolt.Tx, name string, st state.State) error {
	root, err := tx.CreateBucketIfNotExists(format.BucketLarder)
	if err != nil || root.Bucket([]byte(name)) != nil {
		return err
	}
	b, err := root.CreateBucket([]byte(name))
	if err == nil {
		err = Buckets(b, st)
	}
	if err != nil {
		return err
	}
	return state.Put(b, name, st)
}

func Buckets(b *bolt.Bucket, st state.State) error {
	if _, err := b.CreateBucketIfNotExists(format.BucketObjects); err != nil {
		return err
	}
	indexes, err := b.CreateBucketIfNotExists(format.BucketIndex)
	if err != nil {
		return err
	}
	for index := range st.Indexes {
		if _, err := indexes.CreateBucketIfNotExists([]byte(index)); err != nil {
			return err
		}
	}
	if !st.Log.Kept() {
		return nil
	}
	return changelog.Create(b)
}

// Whole returns an error if b lacks a bucket of a collection with the state st.
func Whole(r *read.Reader, b *bolt.Bucket, st state.State) error {
	if _, err := r.Objects(b); err != nil {
		return err
	}
	for name := range st.Indexes {
		if indexes := b.Bucket(format.BucketIndex); indexes == nil || indexes.Bucket([]byte(name)) == nil {
			return fmt.Errorf("collection %s has no bucket of index %q: %w", r.Name, name, entry.ErrDamaged)
		}
	}
	return nil
}
