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
)

// changesReader is the name under which the file has how long changes are kept for readers, and since when. No handler can have it.
const changesReader = "\x00changes"

var errChangesReader = errors.New("the name is that under which changes are kept for readers; choose another")

// ErrNotKept: the store does not keep the changes of the collection for readers; see Collection.KeepChanges.
var ErrNotKept = errors.New("the store does not keep changes for readers")

// SinceError says that what has changed since a number can not be told.
type SinceError struct {
	// Since is the number that was asked for; Oldest is the lowest and Last the highest that would do.
	Since, Oldest, Last uint64
}

// Error implements error.
func (e *SinceError) Error() string {
	if e.Since > e.Last {
		return fmt.Sprintf("the changes have come to %d, and not to %d: it was another store's, or of before this one was made anew", e.Last, e.Since)
	}
	return fmt.Sprintf("the changes since %d are not kept any more; the oldest that can be asked for are those since %d", e.Since, e.Oldest)
}

// Kept is what is kept of the changes of a collection for readers.
type Kept struct {
	// For is how long tombstones are kept; 0: no changes are kept.
	For time.Duration
	// Oldest is the lowest number that View.Changes takes, and Last that of the last change; it grows with each commit whether changes are kept or not.
	Oldest, Last uint64
}

// KeepChanges keeps what View.Changes reads: a tombstone of each object that is deleted, for so long by the time in which the store is open and
// up to 100,000 of them, and the numbers of all changes from now on. A store that is full drops tombstones before it refuses a write. 0 ends it, and frees what durable
// handlers do not need. It stays so over restarts. It costs what a durable handler does, and one more entry for each object that is created.
func (c *Collection) KeepChanges(ctx context.Context, keep time.Duration) error {
	if err := c.keepChanges(ctx, keep); err != nil {
		return fmt.Errorf("keep the changes of %s: %w", c.id, err)
	}
	return nil
}

func (c *Collection) keepChanges(ctx context.Context, keep time.Duration) error {
	switch {
	case keep < 0:
		return fmt.Errorf("for %s: it must not be negative", keep)
	case c.readOnly:
		return ErrReadOnly
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	place, known, err := c.places.reader()
	if err != nil {
		return err
	}
	if keep == 0 {
		if !known {
			return nil
		}
		return c.endChanges(ctx)
	}
	if known && place.Keep == keep {
		if noted, err := c.notesBirths(ctx); noted || err != nil {
			return err
		}
	}
	return c.writeLocked(ctx, nil, func(w *writer) error {
		if err := createFeed(w.bucket); err != nil {
			return err
		}
		if w.feed == nil {
			w.state.feedSince = w.state.NextSeq
		}
		if !known {
			place = Place{Seq: w.state.NextSeq - 1}
			if err := dropBirths(w.bucket); err != nil {
				return err
			}
		}
		stored, err := storedPlace(w.bucket.Bucket(bucketHandlers), c.name, changesReader)
		if err != nil {
			return err
		}
		// A commit that this one has waited for may have dropped tombstones, and moved the place on with them.
		place = Place{Seq: max(place.Seq, stored.Seq), Keep: keep}
		w.committed = func() { c.places.keep(place) }
		if w.places != nil && known {
			w.places.places[changesReader] = place
		}
		if _, err := w.bucket.CreateBucketIfNotExists(bucketBirths); err != nil {
			return err
		}
		return putPlace(w.bucket.Bucket(bucketHandlers), c.name, changesReader, place)
	})
}

// endChanges drops what is kept for readers alone. The caller holds mu.
func (c *Collection) endChanges(ctx context.Context) error {
	err := c.writeLockedFor(ctx, forgetting, nil, func(w *writer) error {
		if err := dropBirths(w.bucket); err != nil {
			return err
		}
		if w.feed != nil {
			w.feed.births = nil
		}
		if delete(w.places.places, changesReader); len(w.places.places) == 0 {
			w.feed, w.state.tombstones, w.state.feedSince = nil, 0, 0
			return dropFeed(w.bucket)
		}
		return w.bucket.Bucket(bucketHandlers).Delete([]byte(changesReader))
	})
	if err == nil {
		c.places.forget(changesReader, true)
	}
	return err
}

func dropBirths(b *bolt.Bucket) error {
	if b.Bucket(bucketBirths) == nil {
		return nil
	}
	return b.DeleteBucket(bucketBirths)
}

func (c *Collection) notesBirths(ctx context.Context) (noted bool, err error) {
	err = c.view(ctx, func(b *bolt.Bucket) error {
		noted = b.Bucket(bucketBirths) != nil
		return nil
	})
	return noted, err
}

// reader returns the place of the readers of changes.
func (p *places) reader() (place Place, known bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Place{}, false, fmt.Errorf("the collection has been closed: %w", ErrClosed)
	}
	h := p.all[changesReader]
	if h == nil {
		return Place{}, false, nil
	}
	return h.place, true, nil
}

// keep notes what the file has: the transaction may have dropped tombstones, too.
func (p *places) keep(place Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]*placed{}
	}
	h := p.all[changesReader]
	if h == nil {
		h = &placed{}
		p.all[changesReader] = h
	}
	place.Seq = max(place.Seq, h.place.Seq)
	h.place, h.written = place, h.version
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
func (s *Store) Kept(ctx context.Context, id Identity) (Kept, error) {
	id, err := id.Canonical()
	if err != nil {
		return Kept{}, err
	}
	r := reader{store: s, name: id.ID()}
	return r.Kept(ctx)
}

// FeedID tells the numbers of the changes of a collection from those of other collections and other files: 8 hex digits, which stay the same until the
// file is made anew. Empty if the file does not tell.
func (s *Store) FeedID(ctx context.Context, id Identity) (feed string, err error) {
	if id, err = id.Canonical(); err != nil {
		return "", err
	}
	err = s.view(ctx, func(tx *bolt.Tx) error {
		root := tx.Bucket(bucketLarder)
		if root == nil || root.Get(keyFileID) == nil {
			return nil
		}
		sum := sha256.Sum256(slices.Concat(root.Get(keyFileID), []byte(id.ID())))
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
	k := Kept{Last: st.NextSeq - 1}
	handlers := b.Bucket(bucketHandlers)
	if handlers == nil {
		return k, nil
	}
	data := handlers.Get([]byte(changesReader))
	if data == nil {
		return k, nil
	}
	place, err := parsePlace(r.name, changesReader, data)
	k.For, k.Oldest, k.Last = place.Keep, place.Seq, max(k.Last, place.Seq)
	return k, err
}

// Changes returns what has been committed of the collection after a number, in order, a page at a time: of a live object the last state only, and of one
// that is gone its last known state. It fails with ErrNotKept, and with a *SinceError if the number is not one that Kept allows.
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
		if found, p.More, err = v.readFeed(b, st, after); err != nil {
			return err
		}
		noteBirths(b.Bucket(bucketBirths), found)
		return nil
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

// noteBirths says of live objects when they were created, where that is known.
func noteBirths(births *bolt.Bucket, found []feedEntry) {
	if births == nil {
		return
	}
	for i, e := range found {
		if born, ok := parseSeqKey(slices.Clone(births.Get([]byte(e.key)))); ok && !e.gone {
			found[i].born = born
		}
	}
}

// Changed returns a channel that is closed after the next commit of something of the collection; nil if no Collection of this process writes to it.
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
