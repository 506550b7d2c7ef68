package engine

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/format"
)

// CreateCollection creates a collection with the state st. It does nothing if the file has the collection.
func CreateCollection(tx *bolt.Tx, name string, st CollectionState) error {
	root, err := tx.CreateBucketIfNotExists(format.BucketLarder)
	if err != nil || root.Bucket([]byte(name)) != nil {
		return err
	}
	b, err := root.CreateBucket([]byte(name))
	if err == nil {
		err = CreateBuckets(b, st)
	}
	if err != nil {
		return err
	}
	return PutState(b, name, st)
}

func CreateBuckets(b *bolt.Bucket, st CollectionState) error {
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

// CheckBuckets returns an error if b lacks a bucket of a collection with the state st.
func CheckBuckets(r *Reader, b *bolt.Bucket, st CollectionState) error {
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
