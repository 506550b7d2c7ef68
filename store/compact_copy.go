package store

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// compaction is one copy of all that is in a store. Each bucket is copied in the order of its keys, so that its pages
// are filled one after the other, and buckets that this program does not know are copied too.
type compaction struct {
	s     *Store
	fresh *handle
	// key is what everything that is to be sealed is sealed with; nil copies records as they are. See rekey_copy.go.
	key *seal.DataKey
	// failed is why the copy could not be written. That says nothing of the file that is copied.
	failed error
}

// run copies everything.
func (c *compaction) run(ctx context.Context, old *bolt.Tx) error {
	// New files are clean; if we die with this one in place, the next process shall verify it.
	err := c.write(func(tx *bolt.Tx) error { return errors.Join(putClean(tx, false), c.putKey(tx)) })
	if err != nil {
		return err
	}
	names := scanAfter(old.Cursor().Bucket(), "")
	for name, _ := names.next(); name != nil; name, _ = names.next() {
		if err := c.bucket(ctx, old.Bucket(name), []string{string(name)}); err != nil {
			return err
		}
	}
	return names.err
}

// bucket copies a bucket and those in it.
func (c *compaction) bucket(ctx context.Context, from *bolt.Bucket, path []string) error {
	var batch []pair
	size := 0
	keys := scanAfter(from, "")
	for k, v := keys.next(); k != nil; k, v = keys.next() {
		if err := c.verify(path, k, v); err != nil {
			return err
		}
		switch {
		case c.left(path, k):
			continue
		case v == nil:
			if err := c.nested(ctx, from.Bucket(k), append(path[:len(path):len(path)], string(k))); err != nil {
				return err
			}
			continue
		}
		batch, size = append(batch, pair{k, v}), size+len(k)+len(v)
		if size < salvageBytes {
			continue
		}
		if err := c.put(ctx, path, batch); err != nil {
			return err
		}
		batch, size = batch[:0], 0
	}
	if keys.err != nil {
		return keys.err
	}
	return c.put(ctx, path, batch)
}

// nested copies a bucket that is in another one.
func (c *compaction) nested(ctx context.Context, from *bolt.Bucket, path []string) error {
	if c.key != nil && len(path) == 2 && path[0] == string(format.BucketLarder) {
		r, err := c.resealing(from, path[1])
		if err != nil {
			return err
		}
		if r != nil {
			return r.run(ctx, from)
		}
	}
	return c.bucket(ctx, from, path)
}

// left reports whether something is not copied: the mark of a clean close, and data keys that others take the place of.
func (c *compaction) left(path []string, key []byte) bool {
	if len(path) != 1 || path[0] != string(format.BucketLarder) {
		return false
	}
	name := string(key)
	return name == string(format.KeyClean) || name == string(format.KeyKeys) && c.key != nil
}

// verify looks at the checksum of a record: it may have changed since the check.
func (c *compaction) verify(path []string, key, value []byte) error {
	if len(path) != 3 || path[2] != string(format.BucketObjects) {
		return nil
	}
	_, err := format.ParseHeader(path[1], string(key), value)
	return err
}

// put writes entries that come after those that are in the bucket, and makes the bucket.
func (c *compaction) put(ctx context.Context, path []string, entries []pair) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.write(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(path[0]))
		for _, name := range path[1:] {
			if err != nil {
				return err
			}
			b, err = b.CreateBucketIfNotExists([]byte(name))
		}
		if err != nil {
			return err
		}
		b.FillPercent = coldFill
		for _, e := range entries {
			if err := b.Put(e.key, e.value); err != nil {
				return err
			}
		}
		return nil
	})
}

// write runs fn in a transaction of the copy.
func (c *compaction) write(fn func(tx *bolt.Tx) error) error {
	c.failed = c.fresh.update(fn, (*bolt.Tx).Commit)
	return c.failed
}
