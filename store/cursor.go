package store

import (
	"context"
	"fmt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/engine"
)

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
