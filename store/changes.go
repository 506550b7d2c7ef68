package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/format"
)

// RetainChanges keeps the changelog for readers without a durable handler, which pass an offset to View.Changes.
// Deletes are kept for the duration retain, counted while the store is open, and at most 100,000 of them. A full store
// drops deletes before it refuses a write. Zero ends the retention, and frees the part of the changelog that no durable
// handler needs. The file stores the duration. Each write costs one more entry, as with a durable handler.
func (c *Collection) RetainChanges(ctx context.Context, retain time.Duration) error {
	if err := c.core.RetainChanges(ctx, retain); err != nil {
		return fmt.Errorf("retain the changes of %s: %w", c.core.ID, err)
	}
	return nil
}

// Kept returns how long changes are kept for readers, and the range of offsets, as of the last commit.
func (c *Collection) Kept(ctx context.Context) (consumer.Kept, error) { return c.core.Read.Kept(ctx) }

// Kept returns how long changes are kept for readers, and the range of offsets, as of the last commit.
func (v *View) Kept(ctx context.Context) (consumer.Kept, error) { return v.read.Kept(ctx) }

// Kept returns how long changes of a collection, open or not, are kept for readers, and the range of offsets, as of the
// last commit.
func (s *Store) Kept(ctx context.Context, id entry.Identity) (consumer.Kept, error) {
	id, err := id.Canonical()
	if err != nil {
		return consumer.Kept{}, err
	}
	r := s.reader(id.ID(), nil)
	return r.Kept(ctx)
}

// ChangelogID returns the id of a collection's changelog, 8 hex digits; "" if the file has no id. Offsets are
// comparable only if the ids are equal. Compact keeps the id. The copy that Open makes of a damaged file has another.
func (s *Store) ChangelogID(ctx context.Context, id entry.Identity) (log string, err error) {
	if id, err = id.Canonical(); err != nil {
		return "", err
	}
	err = s.file.View(ctx, func(tx *bolt.Tx) error {
		root := tx.Bucket(format.BucketLarder)
		if root == nil || root.Get(format.KeyFileID) == nil {
			return nil
		}
		sum := sha256.Sum256(slices.Concat(root.Get(format.KeyFileID), []byte(id.ID())))
		log = hex.EncodeToString(sum[:4])
		return nil
	})
	return log, err
}

// Changes returns a page of the changes that were committed after an offset, in order: each live object once, in its
// last state, and each deleted object in its last known state. It fails with consumer.ErrNotKept, or with a
// *consumer.SinceError if after is not between Oldest and Last of Kept.
func (v *View) Changes(ctx context.Context, after uint64) (consumer.Page, error) {
	return v.changes(ctx, after, true)
}

// ChangedKeys returns the page that Changes returns, but without objects: nothing is decoded.
func (v *View) ChangedKeys(ctx context.Context, after uint64) (consumer.Page, error) {
	return v.changes(ctx, after, false)
}

func (v *View) changes(ctx context.Context, after uint64, whole bool) (consumer.Page, error) {
	p, err := v.read.ChangesSince(ctx, after, whole)
	if err != nil {
		return p, fmt.Errorf("changes of %s: %w", v.id, err)
	}
	return p, nil
}

// OffsetAt returns the offset with which Changes returns the changes since the time at, or only the newest of them if
// newest is not 0. Changes of the minute before, and changes whose time is not known, may be among them. No change
// after the returned time is missing: that is at, or a later time if the changelog begins later. Objects of the first
// list are no changes. OffsetAt fails with consumer.ErrNotKept.
func (v *View) OffsetAt(ctx context.Context, at time.Time, newest int) (after uint64, from time.Time, err error) {
	if after, from, err = v.read.OffsetAt(ctx, at, newest); err != nil {
		return 0, from, fmt.Errorf("changes of %s since %s: %w", v.id, at.Format(time.RFC3339), err)
	}
	return after, from, nil
}

// Changed returns a channel that is closed after the next commit of the collection; nil if this process does not have
// the collection open for writing.
func (v *View) Changed() <-chan struct{} {
	for _, c := range v.store.live.list() {
		if _, err := c.core.Cursors().Retained(); err == nil && c.core.Read.Name == v.read.Name && !c.core.ReadOnly {
			return c.core.Cursors().Changed()
		}
	}
	return nil
}

// Cursor reads the committed changes of a collection for a durable handler. Its methods may be called concurrently.
type Cursor struct {
	c        *Collection
	name     string
	keysOnly bool
}

// OpenCursor registers a durable handler of that name, or continues the handler that an earlier process has registered.
// It fails with consumer.ErrOpen if the handler is registered in this process, and with ErrClosed after Close. The
// first cursor of a collection begins its changelog, which costs one more entry per write from then on.
func (c *Collection) OpenCursor(ctx context.Context, name string) (*Cursor, error) {
	if err := c.core.OpenCursor(ctx, name); err != nil {
		return nil, fmt.Errorf("durable handler %q of %s: %w", name, c.core.ID, err)
	}
	return &Cursor{c: c, name: name}, nil
}

// KeysOnly returns a Cursor of the same handler whose changes have no Object: objects are neither copied nor decoded.
func (c *Cursor) KeysOnly() *Cursor { return &Cursor{c: c.c, name: c.name, keysOnly: true} }

// Position returns the handler's position, and how often this process has made the handler receive every object again.
func (c *Cursor) Position() (p consumer.Position, resets int, err error) {
	return c.c.core.Cursors().Get(c.name)
}

// Acknowledge sets the position, which the next commit writes, or Close at the latest. If the handler was made to
// receive every object again since Position returned resets, it fails with consumer.ErrReset. It fails with ErrClosed
// once the collection or the store is being closed.
func (c *Cursor) Acknowledge(p consumer.Position, resets int) error {
	if err := c.c.core.Acknowledge(c.name, p, resets); err != nil {
		return fmt.Errorf("durable handler %q of %s: %w", c.name, c.c.core.ID, err)
	}
	return nil
}

// Read returns the page of changes after the position at, in order, and the position behind the page. A live object
// appears once, with its last change. If at is Replaying, the page has the objects that have not changed after at.Seq,
// and More is true. Dropped tombstones are missing; handlers that had not acknowledged them receive every object again.
func (c *Cursor) Read(
	ctx context.Context, at consumer.Position,
) (p consumer.Page, next consumer.Position, err error) {
	return c.c.core.Read.ChangesAt(ctx, at, !c.keysOnly)
}

// Next returns a page with the oldest change of a key whose sequence number is between from and upTo, with its Object.
// If the key has no change in that range, the page is empty and its End is 0.
func (c *Cursor) Next(ctx context.Context, key string, from, upTo uint64) (consumer.Page, error) {
	return c.c.core.Read.OldestChange(ctx, key, from, upTo)
}

// Changed returns a channel that is closed after the next commit of the collection, when handlers are made to receive
// every object again, and when the collection or the store is closed.
func (c *Cursor) Changed() <-chan struct{} { return c.c.core.Cursors().Changed() }

// Close lets the handler be registered again. Its position stays in the file.
func (c *Cursor) Close() { c.c.core.Cursors().CloseOne(c.name) }

// ForgetCursor removes a durable handler: its position, and the tombstones that no other handler needs. It fails with
// consumer.ErrNone if no handler has that name, with consumer.ErrOpen while the handler is registered, and with
// ErrClosed after Close. The changelog is dropped with the last handler, unless RetainChanges keeps it. ForgetCursor
// may grow the file past Options.MaxSize, by some pages that are free afterwards.
func (c *Collection) ForgetCursor(ctx context.Context, name string) error {
	if err := c.core.ForgetCursor(ctx, name); err != nil {
		return fmt.Errorf("forget the durable handler %q of %s: %w", name, c.core.ID, err)
	}
	return nil
}

// Cursors returns the durable handlers of the collection, sorted by name, as of the last commit.
func (c *Collection) Cursors(ctx context.Context) ([]consumer.Info, error) {
	return c.core.Read.Cursors(ctx)
}

// Cursors returns the durable handlers of the collection, sorted by name, as of the last commit.
func (v *View) Cursors(ctx context.Context) ([]consumer.Info, error) { return v.read.Cursors(ctx) }

// Cursors returns the durable handlers of a collection, open or not, sorted by name, as of the last commit.
func (s *Store) Cursors(ctx context.Context, id entry.Identity) ([]consumer.Info, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	r := s.reader(id.ID(), nil)
	return r.Cursors(ctx)
}
