package check

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

// Counts corrects the counts of the checks that are running. The zero value is ready to use.
type Counts struct {
	mu  sync.Mutex
	all map[*count]struct{} // guarded by mu
}

// count counts the keys of a bucket in steps, each in a transaction of its own, while others write. A writer that adds
// or removes a key in the part that has been counted corrects n when it commits. Its fields, except the names, may be
// used only by the holder of the writer's place (boltfile.File.TakeWriter).
type count struct {
	collection, bucket string
	to                 []byte // last key that has been counted; nil if none
	n                  int    // number of keys up to to
	// void says that n is no longer right and the count must begin again.
	void bool
}

// counting is what the writer's place is taken for while keys are counted.
var counting = boltfile.Work{What: "a check of the file"}

// Put corrects the counts of a bucket when tx commits: n is 1 if tx adds the key, -1 if it removes it.
func (c *Counts) Put(tx *bolt.Tx, collection string, bucket, key []byte, n int) {
	for _, one := range c.of(collection, bucket) {
		if bytes.Compare(key, one.to) <= 0 {
			tx.OnCommit(func() { one.n += n })
		}
	}
}

// Drop voids the counts of a bucket when tx commits, because tx removes the bucket; it may be created again.
func (c *Counts) Drop(tx *bolt.Tx, collection string, bucket []byte) {
	for _, one := range c.of(collection, bucket) {
		tx.OnCommit(func() { one.void = true })
	}
}

// Renew voids all counts, because the file has changed without calls of Put. The caller has the writer's place.
func (c *Counts) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.all {
		one.void = true
	}
}

// of returns the counts of a bucket.
func (c *Counts) of(collection string, bucket []byte) (all []*count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.all {
		if one.collection == collection && one.bucket == string(bucket) {
			all = append(all, one)
		}
	}
	return all
}

func (c *Counts) begin(collection string, bucket []byte) *count {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*count]struct{}{}
	}
	one := &count{collection: collection, bucket: string(bucket)}
	c.all[one] = struct{}{}
	return one
}

func (c *Counts) end(one *count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, one)
}

// count counts the keys of a bucket. It adds a problem if the number is not the one that says returns from the info
// record, and returns ErrDamaged if keys are out of order.
func (c *collection) count(ctx context.Context, bucket []byte, of string, says func(s state) int) error {
	one := c.Counts.begin(c.name, bucket)
	defer c.Counts.end(one)
	for more := true; more; {
		var err error
		if more, err = c.countStep(ctx, one, of, says); err != nil {
			return err
		}
		if err := c.rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// countStep counts some of the keys. It has the writer's place meanwhile, so every commit has corrected the count.
func (c *collection) countStep(
	ctx context.Context, one *count, of string, says func(s state) int,
) (more bool, err error) {
	release, err := c.TakeWriter(ctx, counting)
	if err != nil {
		return false, err
	}
	defer release()
	err = c.view(ctx, func(s state) error {
		b := s.bucket.Bucket([]byte(one.bucket))
		if b == nil { // checkHandlers reports it
			return nil
		}
		if one.void {
			one.to, one.n, one.void = nil, 0, false
		}
		if more, err = c.countKeys(b, one); err == nil && !more && one.n != says(s) {
			c.problem("it has %d %s, and its info record says %d", one.n, of, says(s))
		}
		return err
	})
	return more, err
}

// leafBytes is how much of a value counts as read along with its key: the rest of a larger value is in overflow pages.
const leafBytes = 4 << 10

// countKeys counts keys until a step is full, and reports whether others follow.
func (c *collection) countKeys(b *bolt.Bucket, one *count) (more bool, err error) {
	last := one.to
	cur := b.Cursor()
	for k, v := boltfile.SeekAfter(cur, last); k != nil; k, v = cur.Next() {
		if one.n++; bytes.Compare(last, k) >= 0 {
			return false, fmt.Errorf("key %s comes after %s: %w", printable.Key(string(k)), printable.Key(string(last)),
				entry.ErrDamaged)
		}
		last = k
		if c.read += len(k) + min(len(v), leafBytes); c.read >= stepBytes {
			one.to = bytes.Clone(k)
			return true, nil
		}
	}
	return false, nil
}
