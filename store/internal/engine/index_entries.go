package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// IndexEntries are the entries of all indexes of a collection, in a write transaction. Terms are in their stored form,
// which is sealed in a sealed collection. The old terms of an object come from the header of its record, so its entries
// are removed even if the index function returns other values for the old object now.
type IndexEntries struct {
	root    *bolt.Bucket
	buckets map[string]*bolt.Bucket      // buckets has the bucket of each index in states.
	states  map[string]format.IndexState // IndexEntries changes states, which are for the collection's info record.
}

// OpenIndexEntries returns the entries in the bucket b of a collection. It fails with entry.ErrDamaged if an index in
// states has no bucket. The IndexEntries change states.
func OpenIndexEntries(
	collection string, b *bolt.Bucket, states map[string]format.IndexState,
) (*IndexEntries, error) {
	buckets := make(map[string]*bolt.Bucket, len(states))
	e := &IndexEntries{root: b.Bucket(format.BucketIndex), states: states, buckets: buckets}
	if e.root == nil {
		return nil, fmt.Errorf("collection %s has no index bucket: %w", collection, entry.ErrDamaged)
	}
	for name := range states {
		var err error
		if e.buckets[name], err = bucketOf(collection, e.root, name); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func bucketOf(collection string, root *bolt.Bucket, name string) (*bolt.Bucket, error) {
	if root != nil {
		if b := root.Bucket([]byte(name)); b != nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("collection %s has no bucket for index %q: %w", collection, name, entry.ErrDamaged)
}

// Idle marks the indexes for which set has no function: records that this process writes have no terms for them. It
// drops an index that an earlier process has marked, since two processes in a row have not used it. It does not drop an
// index at once, because a program may add its function some time after it opens the collection, and would then have to
// rebuild the index at every start. first is true for the first call of a process; later calls drop nothing.
func (e *IndexEntries) Idle(set *IndexSet, first bool) error {
	for name, st := range e.states {
		if set.funcs[name] != nil {
			continue
		}
		if !st.Idle || !first {
			st.Idle, st.Ready = true, false
			e.states[name] = st
			continue
		}
		delete(e.states, name)
		delete(e.buckets, name)
		if err := e.root.DeleteBucket([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

// Ready marks the named indexes as ready. It skips idle indexes, because records are written without their terms.
func (e *IndexEntries) Ready(names []string) {
	for _, name := range names {
		if st, ok := e.states[name]; ok && !st.Idle {
			st.Ready = true
			e.states[name] = st
		}
	}
}

// Move replaces the index entries of key: it removes the entries for the terms old, and adds entries for the terms new.
func (e *IndexEntries) Move(key string, old, new map[string][]string) error {
	for name, b := range e.buckets {
		had := old[name]
		for _, value := range had {
			if slices.Contains(new[name], value) {
				continue
			}
			if err := b.Delete(format.IndexKey(value, key)); err != nil {
				return fmt.Errorf("index %q: %w", name, err)
			}
		}
		if !e.states[name].Ready {
			had = nil // IndexedRecords from before the index may have terms without entries.
		}
		if err := put(b, key, had, new[name]); err != nil {
			return fmt.Errorf("index %q: %w", name, err)
		}
	}
	return nil
}

// Purge removes all entries of key. It reads every entry, for a key whose old terms are unknown.
func (e *IndexEntries) Purge(key string) error {
	for name, b := range e.buckets {
		var drop [][]byte
		err := b.ForEach(func(k, v []byte) error {
			if _, of, err := format.ParseIndexEntry(k, v); err == nil && of == key {
				drop = append(drop, bytes.Clone(k))
			}
			return nil
		})
		for _, k := range drop {
			err = errors.Join(err, b.Delete(k))
		}
		if err != nil {
			return fmt.Errorf("index %q: %w", name, err)
		}
	}
	return nil
}

// PutTerms adds entries of key for the values to the bucket of one index.
func PutTerms(b *bolt.Bucket, key string, values []string) error { return put(b, key, nil, values) }

// put adds entries of key for the values, except the values in had, which have entries already.
func put(b *bolt.Bucket, key string, had, values []string) error {
	for _, value := range values {
		if slices.Contains(had, value) {
			continue
		}
		k, v := format.IndexEntry(value, key)
		if err := b.Put(k, v); err != nil {
			return err
		}
	}
	return nil
}

// LacksTerms reports whether an index of the collection with bucket b lacks an entry of key for one of the terms. It
// ignores terms of indexes without a bucket.
func LacksTerms(b *bolt.Bucket, key string, terms map[string][]string) bool {
	root := b.Bucket(format.BucketIndex)
	for name, values := range terms {
		index := root.Bucket([]byte(name))
		for _, value := range values {
			if index != nil && !HasTerm(index, value, key) {
				return true
			}
		}
	}
	return false
}

// HasTerm reports whether the bucket of an index has an entry of key for value.
func HasTerm(index *bolt.Bucket, value, key string) bool {
	want := format.IndexKey(value, key)
	k, _ := index.Cursor().Seek(want)
	return k != nil && string(k) == string(want)
}
