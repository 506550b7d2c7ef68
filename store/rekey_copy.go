package store

import (
	"bytes"
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// resealing copies one collection, with all that tells of objects sealed under a new data key.
type resealing struct {
	reader
	c    *compaction
	path []string
	st   state
	// dicts are the new ids of dictionaries, by the old ones.
	dicts map[uint64]uint64
}

// putKey writes the record of the data keys of a copy.
func (c *compaction) putKey(tx *bolt.Tx) error {
	if c.key == nil {
		return nil
	}
	record, err := keysOf([]*seal.DataKey{c.key})
	if err != nil {
		return err
	}
	return tx.Bucket(format.BucketLarder).Put(format.KeyKeys, record)
}

// resealing returns nil for a collection that is not to be sealed, and holds nothing that is.
func (c *compaction) resealing(from *bolt.Bucket, name string) (*resealing, error) {
	st, err := getState(from, name)
	if err != nil {
		return nil, err
	}
	if !st.Sealed && !c.s.Seals(st.Identity.GroupResource()) && !holdsSealed(from) {
		return nil, nil
	}
	return &resealing{reader: reader{store: c.s, name: name}, c: c, path: []string{string(format.BucketLarder), name},
		st: st, dicts: map[uint64]uint64{}}, nil
}

// holdsSealed reports whether a collection has a record that is sealed, whatever its state says: a program that knows
// of no sealing writes that without the mark.
func holdsSealed(b *bolt.Bucket) bool {
	for _, name := range [][]byte{format.BucketObjects, format.BucketTombstones} {
		records := b.Bucket(name)
		if records == nil {
			continue
		}
		for _, data := range ascending(records) {
			if len(data) > 0 && data[0] == format.SealedVersion {
				return true
			}
		}
	}
	return false
}

// run copies the collection: first the dictionaries, whose ids the records need, and last the state.
func (r *resealing) run(ctx context.Context, from *bolt.Bucket) error {
	if err := r.makeBuckets(from); err != nil {
		return err
	}
	if dicts := from.Bucket(format.BucketDictionaries); dicts != nil {
		if err := r.each(ctx, dicts, r.oneDictionary); err != nil {
			return err
		}
	}
	err := from.ForEach(func(k, v []byte) error {
		if v != nil {
			if bytes.Equal(k, format.KeyInfo) {
				return nil
			}
			return r.c.put(ctx, r.path, []pair{{k, v}})
		}
		return r.sub(ctx, from.Bucket(k), string(k))
	})
	if err != nil {
		return err
	}
	return r.c.write(func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, r.name)
		if err != nil {
			return err
		}
		r.st.Sealed, r.st.PlainText = true, false
		r.st.dictionary = r.dicts[r.st.dictionary]
		return putState(b, r.name, r.st)
	})
}

// makeBuckets makes those that every collection has, and those of the indexes: their entries come with the records.
func (r *resealing) makeBuckets(from *bolt.Bucket) error {
	return r.c.write(func(tx *bolt.Tx) error {
		b, err := ensureCollection(tx, r.name, r.st)
		if err != nil {
			return err
		}
		indexes := from.Bucket(format.BucketIndex)
		if indexes == nil {
			return fmt.Errorf("collection %s has no index bucket: %w", r.name, entry.ErrDamaged)
		}
		return indexes.ForEachBucket(func(name []byte) error {
			_, err := b.Bucket(format.BucketIndex).CreateBucketIfNotExists(name)
			return err
		})
	})
}

// sub copies a bucket of the collection. One that this program does not know is copied as it is.
func (r *resealing) sub(ctx context.Context, from *bolt.Bucket, name string) error {
	switch name {
	case string(format.BucketIndex), string(format.BucketDictionaries):
		return nil
	case string(format.BucketObjects):
		return r.each(ctx, from, r.object)
	case string(format.BucketTombstones):
		return r.each(ctx, from, r.tombstone)
	}
	return r.c.bucket(ctx, from, append(r.path[:2:2], name))
}

// each calls fn with the entries of a bucket, about salvageBytes of them in each transaction of the copy, whose bucket
// of the collection it gets.
func (r *resealing) each(ctx context.Context, from *bolt.Bucket, fn func(b *bolt.Bucket, k, v []byte) error) error {
	keys := scanAfter(from, "")
	k, v := keys.next()
	for k != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		var failed error // of the old file
		err := r.c.write(func(tx *bolt.Tx) error {
			b, err := collectionBucket(tx, r.name)
			if err != nil {
				return err
			}
			for size := 0; k != nil && size < salvageBytes; k, v = keys.next() {
				if failed = fn(b, k, v); failed != nil {
					return failed
				}
				size += len(k) + len(v)
			}
			return nil
		})
		if failed != nil {
			r.c.failed = nil // it is no failure of the copy
			return failed
		}
		if err != nil {
			return err
		}
	}
	return keys.err
}

// record seals one of a bucket anew. It returns the header that it has then.
func (r *resealing) record(dst, bucket []byte, key string, data []byte) ([]byte, format.Header, error) {
	h, payload, err := format.ParseRecord(r.name, key, data)
	if err != nil {
		return nil, h, err
	}
	if h.Unknown != 0 {
		return nil, h, fmt.Errorf("record %s in collection %s is of version %d, which a newer program has written: %w",
			printable.Key(key), r.name, h.Unknown, entry.ErrIncompatible)
	}
	if payload, err = r.opened(bucket, key, h, payload); err != nil {
		return nil, h, err
	}
	terms, err := r.plainTerms(key, h)
	if err != nil {
		return nil, h, err
	}
	h.Terms = r.c.key.Tokens(r.name, terms)
	if h.Dictionary != 0 {
		if h.Dictionary = r.dicts[h.Dictionary]; h.Dictionary == 0 {
			return nil, h, fmt.Errorf("record %s in collection %s: its dictionary is not there: %w", printable.Key(key), r.name,
				entry.ErrDamaged)
		}
	}
	return r.c.key.AppendSealed(dst, bucket, r.name, key, h, payload), h, nil
}

func (r *resealing) object(b *bolt.Bucket, k, v []byte) error {
	record, h, err := r.record(nil, format.BucketObjects, string(k), v)
	if err != nil {
		return err
	}
	objects, indexes := b.Bucket(format.BucketObjects), b.Bucket(format.BucketIndex)
	objects.FillPercent = coldFill
	if err := objects.Put(k, record); err != nil {
		return err
	}
	for index, tokens := range h.Terms {
		in := indexes.Bucket([]byte(index))
		if in == nil {
			continue // an index that was dropped
		}
		if err := moveEntries(in, string(k), nil, tokens, true); err != nil {
			return err
		}
	}
	return nil
}

func (r *resealing) tombstone(b *bolt.Bucket, k, v []byte) error {
	seq, ok := format.ParseSeqKey(k)
	if !ok {
		return fmt.Errorf("a tombstone of collection %s is under %x: %w", r.name, k, entry.ErrDamaged)
	}
	t, err := format.ParseTombstone(r.name, seq, v)
	if err != nil {
		return err
	}
	place := t.Place()
	record, _, err := r.record([]byte(place), format.BucketTombstones, place, v[len(place):])
	if err != nil {
		return err
	}
	tombstones := b.Bucket(format.BucketTombstones)
	tombstones.FillPercent = coldFill
	return tombstones.Put(k, record)
}

// oneDictionary seals a dictionary. One that was in plain text gets another id: the old one is a hash of it.
func (r *resealing) oneDictionary(b *bolt.Bucket, k, v []byte) error {
	id, ok := format.ParseDictionaryKey(k)
	if !ok {
		return fmt.Errorf("a dictionary of collection %s has the key %s: %w", r.name, printable.Key(string(k)),
			entry.ErrDamaged)
	}
	dict, err := r.parseDictionary(id, v)
	if err != nil {
		return err
	}
	r.dicts[id] = id
	if dict.IsHashed() {
		r.dicts[id] = format.RandomID()
	}
	dicts, err := b.CreateBucketIfNotExists(format.BucketDictionaries)
	if err != nil {
		return err
	}
	place := format.DictionaryPlace(r.dicts[id])
	record := r.c.key.AppendSealed(nil, format.BucketDictionaries, r.name, place, format.DictionaryHeader, dict.Content)
	return dicts.Put(format.DictionaryKey(r.dicts[id]), record)
}
