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
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/internal/format"
)

// RetainChanges keeps the changelog for readers without a durable handler, which pass an offset to View.Changes.
// Deletes are kept for the duration retain, counted while the store is open, and at most 100,000 of them. A full store
// drops deletes before it refuses a write. Zero ends the retention, and frees the part of the changelog that no durable
// handler needs. The file stores the duration. Each write costs one more entry, as with a durable handler.
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
	if was, err := c.cursors.Retained(); err != nil || was == retain {
		return err
	}
	what := c.writing()
	if retain == 0 {
		what = forgetting
	}
	err := c.writeLockedFor(ctx, what, func(w *engine.Writer) error { return w.Retain(retain) })
	if err == nil {
		c.cursors.SetRetained(retain)
	}
	return err
}

// Kept returns how long changes are kept for readers, and the range of offsets, as of the last commit.
func (c *Collection) Kept(ctx context.Context) (consumer.Kept, error) { return c.read.Kept(ctx) }

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
// comparable only if the ids are equal. Compact and Rebuild keep the id.
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
		if _, err := c.cursors.Retained(); err == nil && c.read.Name == v.read.Name && !c.readOnly {
			return c.cursors.Changed()
		}
	}
	return nil
}

// maxCursorName is the maximum length of a cursor's name, in bytes.
const maxCursorName = 256

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
	if err := c.openCursor(ctx, name); err != nil {
		return nil, fmt.Errorf("durable handler %q of %s: %w", name, c.id, err)
	}
	return &Cursor{c: c, name: name}, nil
}

func (c *Collection) openCursor(ctx context.Context, name string) error {
	if name == "" || len(name) > maxCursorName {
		return fmt.Errorf("its name has %d bytes; 1 to %d can be stored", len(name), maxCursorName)
	}
	if c.readOnly {
		return ErrReadOnly
	}
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	known, err := c.cursors.Open(name)
	if known || err != nil {
		return err
	}
	var first consumer.Position
	err = c.writeLocked(ctx, func(w *engine.Writer) (err error) {
		first, err = w.Log.Register(name)
		return err
	})
	if err == nil {
		c.cursors.Add(name, first)
	}
	return err
}

// KeysOnly returns a Cursor of the same handler whose changes have no Object: objects are neither copied nor decoded.
func (c *Cursor) KeysOnly() *Cursor { return &Cursor{c: c.c, name: c.name, keysOnly: true} }

// Position returns the handler's position, and how often this process has made the handler receive every object again.
func (c *Cursor) Position() (p consumer.Position, resets int, err error) {
	return c.c.cursors.Get(c.name)
}

// Acknowledge sets the position, which the next commit writes, or Close at the latest. If the handler was made to
// receive every object again since Position returned resets, it fails with consumer.ErrReset. It fails with ErrClosed
// once the collection or the store is being closed.
func (c *Cursor) Acknowledge(p consumer.Position, resets int) error {
	if err := c.c.cursors.Move(c.name, resets, p); err != nil {
		return fmt.Errorf("durable handler %q of %s: %w", c.name, c.c.id, err)
	}
	c.c.reportDirty(0)
	return nil
}

// Read returns the page of changes after the position at, in order, and the position behind the page. A live object
// appears once, with its last change. If at is Replaying, the page has the objects that have not changed after at.Seq,
// and More is true. Dropped tombstones are missing; handlers that had not acknowledged them receive every object again.
func (c *Cursor) Read(
	ctx context.Context, at consumer.Position,
) (p consumer.Page, next consumer.Position, err error) {
	return c.c.read.ChangesAt(ctx, at, !c.keysOnly)
}

// Next returns a page with the oldest change of a key whose sequence number is between from and upTo, with its Object.
// If the key has no change in that range, the page is empty and its End is 0.
func (c *Cursor) Next(ctx context.Context, key string, from, upTo uint64) (consumer.Page, error) {
	return c.c.read.OldestChange(ctx, key, from, upTo)
}

// Changed returns a channel that is closed after the next commit of the collection, when handlers are made to receive
// every object again, and when the collection or the store is closed.
func (c *Cursor) Changed() <-chan struct{} { return c.c.cursors.Changed() }

// Close lets the handler be registered again. Its position stays in the file.
func (c *Cursor) Close() { c.c.cursors.CloseOne(c.name) }

// ForgetCursor removes a durable handler: its position, and the tombstones that no other handler needs. It fails with
// consumer.ErrNone if no handler has that name, with consumer.ErrOpen while the handler is registered, and with
// ErrClosed after Close. The changelog is dropped with the last handler, unless RetainChanges keeps it. ForgetCursor
// may grow the file past Options.MaxSize, by some pages that are free afterwards.
func (c *Collection) ForgetCursor(ctx context.Context, name string) error {
	if err := c.forgetCursor(ctx, name); err != nil {
		return fmt.Errorf("forget the durable handler %q of %s: %w", name, c.id, err)
	}
	return nil
}

func (c *Collection) forgetCursor(ctx context.Context, name string) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	known, err := c.cursors.Open(name) // Open keeps other calls from opening the cursor before it is removed
	switch {
	case err != nil:
		return err
	case !known:
		return consumer.ErrNone
	}
	err = c.writeLockedFor(ctx, forgetting, func(w *engine.Writer) error { return w.Log.Forget(name) })
	if err != nil {
		c.cursors.CloseOne(name)
		return err
	}
	c.cursors.Remove(name)
	return nil
}

// Cursors returns the durable handlers of the collection, sorted by name, as of the last commit.
func (c *Collection) Cursors(ctx context.Context) ([]consumer.Info, error) {
	return c.read.Cursors(ctx)
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

// loadCursors reads the positions of the durable handlers. A handler whose position is damaged receives every object
// again. loadCursors then returns nil, although the damage makes the store fail: Rebuild writes the positions in
// memory.
func (c *Collection) loadCursors(ctx context.Context) error {
	var all map[string]consumer.Position
	var st engine.CollectionState
	err := c.read.View(ctx, func(b *bolt.Bucket) (err error) {
		if st, err = engine.GetState(b, c.read.Name); err != nil {
			return err
		}
		all, err = changelog.ReadCursors(b, c.read.Name, st.Log)
		return err
	})
	if err != nil && (!isDamaged(err) || all == nil) {
		return err
	}
	if !st.Log.Fits(all) && !c.readOnly {
		err := c.update(ctx, func(tx *bolt.Tx) error {
			return engine.UpdateState(tx, c.read.Name, func(b *bolt.Bucket, st *engine.CollectionState) error {
				return changelog.Renew(b, c.read.Name, &st.Log, all)
			})
		})
		if err != nil {
			return err
		}
	}
	c.cursors.Load(all, st.Log.Retain)
	return nil //nolint:nilerr // see above
}

// resetCursors makes all durable handlers receive every object again, after a rebuild has lost objects or tombstones.
func (c *Collection) resetCursors(ctx context.Context) error {
	return c.read.View(ctx, func(b *bolt.Bucket) error {
		st, err := engine.GetState(b, c.read.Name)
		if err == nil {
			c.cursors.ResetAll(st.Log)
			c.reportDirty(0)
		}
		return err
	})
}

// trimForSpace drops the tombstones that all durable handlers have acknowledged, even if RetainChanges keeps them, so
// that the next write can use their pages. The caller holds the file's writer lock.
func (s *Store) trimForSpace() {
	for _, c := range s.live.list() {
		for c.cursors.Any() && c.trimPassed() == nil {
			s.logger().V(2).Info("Tombstones have been dropped to make room", "collection", c.id.String())
		}
	}
}

var errNonePassed = errors.New("there is no tombstone that all handlers have passed")

// trimPassed drops some of the tombstones that all durable handlers have acknowledged, or fails with errNonePassed. The
// caller holds the file's writer lock.
func (c *Collection) trimPassed() error {
	var cursors *changelog.Snapshot
	err := c.store.file.UpdateHeld(context.Background(), trimming, func(tx *bolt.Tx) error {
		w, err := engine.BeginWriter(tx, c.target())
		if err != nil {
			return err
		}
		before := w.State.Log.Tombstones
		if cursors, err = w.Log.Settle(true); err != nil {
			return err
		}
		if w.State.Log.Tombstones == before {
			return errNonePassed
		}
		return w.Put()
	})
	c.cursors.Written(cursors, err)
	return err
}
