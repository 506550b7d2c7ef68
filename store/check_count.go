package store

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/format"
)

// leafBytes is how much of a value is read at most with its key: the rest of a larger one is in pages of its own.
const leafBytes = 4 << 10

// tally counts the keys of a bucket by steps, each a transaction of its own, while others write: what they add to or
// take from the part that has been counted they tell it when they commit. All but what it counts belongs to who has the
// writer's place.
type tally struct {
	tallied
	to []byte // the last key that has been counted
	n  int    // keys up to it
	// void: what has been counted says nothing of what there is.
	void bool
}

// tallied is what a tally counts.
type tallied struct{ collection, bucket string }

// tallies are those at work. The zero value is ready.
type tallies struct {
	mu  sync.Mutex
	all map[*tally]struct{} // guarded by mu
}

func (t *tallies) begin(what tallied) *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[*tally]struct{}{}
	}
	one := &tally{tallied: what}
	t.all[one] = struct{}{}
	return one
}

func (t *tallies) end(one *tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, one)
}

// of returns those that count a bucket.
func (t *tallies) of(what tallied) (all []*tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for one := range t.all {
		if one.tallied == what {
			all = append(all, one)
		}
	}
	return all
}

// put tells that the transaction, if it is committed, has n keys more in a bucket: that one, or with -1 without it.
func (t *tallies) put(tx *bolt.Tx, what tallied, key []byte, n int) {
	for _, one := range t.of(what) {
		if bytes.Compare(key, one.to) <= 0 {
			tx.OnCommit(func() { one.n += n })
		}
	}
}

// drop tells that the transaction, if it is committed, removes a bucket; another may come in its place.
func (t *tallies) drop(tx *bolt.Tx, what tallied) {
	for _, one := range t.of(what) {
		tx.OnCommit(func() { one.void = true })
	}
}

// renew tells that something has changed in the file of which nothing was told. The caller has the writer's place.
func (t *tallies) renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for one := range t.all {
		one.void = true
	}
}

func (c *checker) countObjects(ctx context.Context) error {
	return c.count(ctx, format.BucketObjects, "objects", func(st state) int { return st.Objects })
}

func (c *checker) countTombstones(ctx context.Context) error {
	return c.count(ctx, format.BucketTombstones, "tombstones", func(st state) int { return st.tombstones })
}

// count counts the keys of a bucket, and reports if it has others than the info record says, or out of order.
func (c *checker) count(ctx context.Context, bucket []byte, of string, says func(state) int) error {
	t := c.store.tallies.begin(tallied{c.name, string(bucket)})
	defer c.store.tallies.end(t)
	for more := true; more; {
		var err error
		if more, err = c.countPage(ctx, t, of, says); err != nil {
			return err
		}
		if err := c.rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// countPage counts on. Nobody writes meanwhile, so that everything that has been committed has been told.
func (c *checker) countPage(ctx context.Context, t *tally, of string, says func(state) int) (more bool, err error) {
	release, err := c.store.takeWriter(ctx, checking)
	if err != nil {
		return false, err
	}
	defer release()
	err = c.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, c.name)
		in := b.Bucket([]byte(t.bucket))
		if err != nil || in == nil { // others report a bucket that should be there
			return err
		}
		if t.void {
			t.to, t.n, t.void = nil, 0, false
		}
		if more, err = c.countIn(in, t); err == nil && !more && t.n != says(st) {
			c.problem("it has %d %s, and its info record says %d", t.n, of, says(st))
		}
		return err
	})
	return more, err
}

// countIn counts a page of a bucket, and reports whether there is another.
func (c *checker) countIn(in *bolt.Bucket, t *tally) (more bool, err error) {
	last := t.to
	cur := in.Cursor()
	for k, v := seekAfter(cur, string(last)); k != nil; k, v = cur.Next() {
		if t.n++; bytes.Compare(last, k) >= 0 {
			return false, fmt.Errorf("key %s comes after %s: %w", printable.Key(string(k)), printable.Key(string(last)),
				entry.ErrDamaged)
		}
		last = k
		if c.read += len(k) + min(len(v), leafBytes); c.read >= stepBytes {
			t.to = bytes.Clone(k)
			return true, nil
		}
	}
	return false, nil
}
