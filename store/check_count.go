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

// leafBytes is how much of a value counts as read along with its key: the rest of a larger value is in overflow pages.
const leafBytes = 4 << 10

// tally counts the keys of a bucket in steps, each in a transaction of its own, while other goroutines write. A writer
// that adds or removes a key in the part that has been counted corrects n when it commits. Its fields, except tallied,
// may be used only by the holder of the writer's place (Store.takeWriter).
type tally struct {
	tallied
	to []byte // last key that has been counted; nil if none
	n  int    // number of keys up to to
	// void says that n is no longer right and the count must begin again.
	void bool
}

// tallied names the bucket that a tally counts.
type tallied struct{ collection, bucket string }

// tallies holds the tallies of the checks that are running. The zero value is ready to use.
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

// of returns the tallies that count a bucket.
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

// put corrects the tallies of a bucket when tx commits: n is 1 if tx adds the key, -1 if it removes it.
func (t *tallies) put(tx *bolt.Tx, what tallied, key []byte, n int) {
	for _, one := range t.of(what) {
		if bytes.Compare(key, one.to) <= 0 {
			tx.OnCommit(func() { one.n += n })
		}
	}
}

// drop voids the tallies of a bucket when tx commits, because tx removes the bucket; it may be created again.
func (t *tallies) drop(tx *bolt.Tx, what tallied) {
	for _, one := range t.of(what) {
		tx.OnCommit(func() { one.void = true })
	}
}

// renew voids all tallies, because the file has changed without calls of put. The caller has the writer's place.
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

// count counts the keys of a bucket. It adds a problem if the number is not the one that says returns from the info
// record, and returns ErrDamaged if keys are out of order.
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

// countPage counts the next page. It has the writer's place meanwhile, so every commit has corrected the tally.
func (c *checker) countPage(ctx context.Context, t *tally, of string, says func(state) int) (more bool, err error) {
	release, err := c.store.takeWriter(ctx, checking)
	if err != nil {
		return false, err
	}
	defer release()
	err = c.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, c.name)
		in := b.Bucket([]byte(t.bucket))
		if err != nil || in == nil { // recordPage and checkHandlers report a missing bucket
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

// countIn counts the next page of a bucket, and reports whether another page follows.
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
