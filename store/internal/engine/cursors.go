package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
)

// Work that frees pages, so that it may grow the file past its maximum size.
var (
	forgetting = boltfile.Work{What: "the removal of a durable handler", Frees: true}
	trimming   = boltfile.Work{What: "the removal of tombstones", Frees: true}
)

// Cursors returns the positions of the durable handlers in the changelog.
func (c *Collection) Cursors() *changelog.Cursors { return &c.cursors }

// loadCursors reads the positions of the durable handlers.
func (c *Collection) loadCursors(ctx context.Context) error {
	var all map[string]consumer.Position
	var st CollectionState
	err := c.Read.View(ctx, func(b *bolt.Bucket) (err error) {
		if st, err = GetState(b, c.Read.Name); err != nil {
			return err
		}
		all, err = changelog.ReadCursors(b, c.Read.Name)
		return err
	})
	if err != nil {
		return err
	}
	if !st.Log.Fits(all) && !c.ReadOnly {
		err := c.update(ctx, func(tx *bolt.Tx) error {
			return UpdateState(tx, c.Read.Name, func(b *bolt.Bucket, st *CollectionState) error {
				return changelog.Renew(b, c.Read.Name, &st.Log, all)
			})
		})
		if err != nil {
			return err
		}
	}
	c.cursors.Load(all, st.Log.Retain)
	return nil
}

// RetainChanges keeps the changelog for readers without a durable handler; see store.Collection.
func (c *Collection) RetainChanges(ctx context.Context, retain time.Duration) error {
	switch {
	case retain < 0:
		return fmt.Errorf("for %s: it must not be negative", retain)
	case c.ReadOnly:
		return boltfile.ErrReadOnly
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
	err := c.writeLockedFor(ctx, what, func(w *Writer) error { return w.Retain(retain) })
	if err == nil {
		c.cursors.SetRetained(retain)
	}
	return err
}

// maxCursorName is the maximum length of a cursor's name, in bytes.
const maxCursorName = 256

// OpenCursor registers or continues a durable handler; see store.Collection.
func (c *Collection) OpenCursor(ctx context.Context, name string) error {
	if name == "" || len(name) > maxCursorName {
		return fmt.Errorf("its name has %d bytes; 1 to %d can be stored", len(name), maxCursorName)
	}
	if c.ReadOnly {
		return boltfile.ErrReadOnly
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
	err = c.writeLocked(ctx, func(w *Writer) (err error) {
		first, err = w.Log.Register(name)
		return err
	})
	if err == nil {
		c.cursors.Add(name, first)
	}
	return err
}

// Acknowledge sets the position of a durable handler, which the next commit writes; see store.Cursor.
func (c *Collection) Acknowledge(name string, p consumer.Position, resets int) error {
	err := c.cursors.Move(name, resets, p)
	if err == nil {
		c.Commits.Add(c, 0)
	}
	return err
}

// ForgetCursor removes a durable handler; see store.Collection.
func (c *Collection) ForgetCursor(ctx context.Context, name string) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	known, err := c.cursors.Open(name) // Open keeps other calls from opening the cursor before it is removed.
	switch {
	case err != nil:
		return err
	case !known:
		return consumer.ErrNone
	}
	err = c.writeLockedFor(ctx, forgetting, func(w *Writer) error { return w.Log.Forget(name) })
	if err != nil {
		c.cursors.CloseOne(name)
		return err
	}
	c.cursors.Remove(name)
	return nil
}

// TrimForSpace drops the tombstones that all durable handlers have acknowledged, even if RetainChanges keeps them, so
// that the next write can use their pages. The caller holds the file's writer lock.
func (c *Collection) TrimForSpace() {
	for c.cursors.Any() && c.trimPassed() == nil {
		c.Read.File.Logger().V(2).Info("Tombstones have been dropped to make room", "collection", c.ID.String())
	}
}

var errNonePassed = errors.New("there is no tombstone that all handlers have passed")

// trimPassed drops some of the tombstones that all durable handlers have acknowledged, or fails with errNonePassed. The
// caller holds the file's writer lock.
func (c *Collection) trimPassed() error {
	var cursors *changelog.Snapshot
	err := c.Read.File.UpdateHeld(context.Background(), trimming, func(tx *bolt.Tx) error {
		w, err := BeginWriter(tx, c.target())
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
