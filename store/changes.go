package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// ErrNotKept: the store does not keep the changes of the collection for readers; see Collection.RetainChanges.
var ErrNotKept = errors.New("the store does not keep changes for readers")

// SinceError says that what has changed since a number cannot be told.
type SinceError struct {
	// Since is the number that was asked for; Oldest is the lowest and Last the highest that would do.
	Since, Oldest, Last uint64
}

// Error implements error.
func (e *SinceError) Error() string {
	if e.Since > e.Last {
		return fmt.Sprintf(
			"the changes have come to %d, and not to %d: it was another store's, or of before this one was made anew", e.Last,
			e.Since)
	}
	return fmt.Sprintf("the changes since %d are not kept any more; the oldest that can be asked for are those since %d",
		e.Since, e.Oldest)
}

// Kept is what is kept of the changes of a collection for readers.
type Kept struct {
	// For is how long deletes are kept; 0: no changes are kept.
	For time.Duration
	// Oldest is the lowest number that View.Changes takes, and Last that of the last change; it grows with each commit
	// whether changes are kept or not.
	Oldest, Last uint64
}

// RetainChanges has the changelog kept for readers that nobody knows: whoever has come to some number asks
// View.Changes, in whatever process has the file, what has changed since. A delete stays for so long, by the time in
// which the store is open, and as one of the last 100,000. A store that is full drops deletes before it refuses a
// write. 0 ends it, and frees what durable handlers do not need. It stays so over restarts, and costs one more entry a
// write, as a durable handler does.
func (c *Collection) RetainChanges(ctx context.Context, retain time.Duration) error {
	if err := c.retainChanges(ctx, retain); err != nil {
		return fmt.Errorf("retain the changes of %s: %w", c.id, err)
	}
	return nil
}

func (c *Collection) retainChanges(ctx context.Context, retain time.Duration) error {
	switch {
	case retain < 0:
		return fmt.Errorf("for %s: it must not be negative", retain)
	case c.readOnly:
		return ErrReadOnly
	}
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	if was, err := c.places.retained(); err != nil || was == retain {
		return err
	}
	what := c.writing()
	if retain == 0 {
		what = forgetting
	}
	err := c.writeLockedFor(ctx, what, nil, func(w *writer) error {
		w.state.retain = retain
		if retain > 0 {
			return w.beginFeed()
		}
		if w.places == nil || len(w.places.places) == 0 {
			return w.endFeed()
		}
		return nil // the tombstones go with what follows
	})
	if err == nil {
		c.places.setRetained(retain)
	}
	return err
}

func (p *places) retained() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, fmt.Errorf("the collection has been closed: %w", ErrClosed)
	}
	return p.retain, nil
}

func (p *places) setRetained(retain time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retain = retain
}

// Kept returns what is kept of the changes for readers, as of the last commit.
func (r *reader) Kept(ctx context.Context) (k Kept, err error) {
	err = r.view(ctx, func(b *bolt.Bucket) (err error) {
		k, err = r.kept(b)
		return err
	})
	return k, err
}

// Kept returns what is kept of the changes of a collection, opened or not, as Collection.Kept does.
func (s *Store) Kept(ctx context.Context, id entry.Identity) (Kept, error) {
	id, err := id.Canonical()
	if err != nil {
		return Kept{}, err
	}
	r := reader{store: s, name: id.ID()}
	return r.Kept(ctx)
}

// FeedID tells the numbers of the changes of a collection from those of other collections and other files: 8 hex
// digits, which stay the same until the file is made anew. Empty if the file does not tell.
func (s *Store) FeedID(ctx context.Context, id entry.Identity) (feed string, err error) {
	if id, err = id.Canonical(); err != nil {
		return "", err
	}
	err = s.view(ctx, func(tx *bolt.Tx) error {
		root := tx.Bucket(format.BucketLarder)
		if root == nil || root.Get(format.KeyFileID) == nil {
			return nil
		}
		sum := sha256.Sum256(slices.Concat(root.Get(format.KeyFileID), []byte(id.ID())))
		feed = hex.EncodeToString(sum[:4])
		return nil
	})
	return feed, err
}

func (r *reader) kept(b *bolt.Bucket) (Kept, error) {
	st, err := getState(b, r.name)
	if err != nil {
		return Kept{}, err
	}
	k := Kept{For: st.retain, Last: st.NextSeq - 1}
	if k.For > 0 && st.feedSince > 0 {
		k.Oldest = max(st.feedSince-1, st.feedLacks)
	}
	return k, nil
}

// Changes returns what has been committed of the collection after a number, in order, a page at a time: of a live
// object the last state only, and of one that is gone its last known state. It fails with ErrNotKept, and with a
// *SinceError if the number is not one that Kept allows.
func (v *View) Changes(ctx context.Context, after uint64) (p FeedPage, err error) {
	var found []feedEntry
	err = v.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, v.name)
		if err != nil {
			return err
		}
		k, err := v.kept(b)
		switch {
		case err != nil:
			return err
		case k.For == 0:
			return ErrNotKept
		case after < k.Oldest || after > k.Last:
			return &SinceError{Since: after, Oldest: k.Oldest, Last: k.Last}
		}
		p = FeedPage{End: k.Last}
		found, p.More, err = v.readFeed(b, st, after, true)
		return err
	})
	if err != nil {
		return FeedPage{}, fmt.Errorf("changes of %s: %w", v.id, err)
	}
	if p.More {
		p.End = found[len(found)-1].Seq
	}
	err = v.decodeFeed(&p, found) // before p is read for the result
	return p, err
}

// Changed returns a channel that is closed after the next commit of something of the collection; nil if no Collection
// of this process writes to it.
func (v *View) Changed() <-chan struct{} {
	for _, c := range v.store.liveCollections() {
		if c.name == v.name && !c.readOnly && !c.places.ended() {
			return c.places.nextChange()
		}
	}
	return nil
}

func (p *places) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}
