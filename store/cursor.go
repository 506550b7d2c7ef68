package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/state"
)

// maxCursorName is the maximum length of a cursor's name, in bytes.
const maxCursorName = 256

// Position is how far a durable handler has come in the changelog of a collection.
type Position struct {
	// Seq is the offset: the number up to which every change has been acknowledged, except those of Failing and, while
	// Replaying, the objects after After.
	Seq uint64
	// Failing holds the keys that have changes up to Seq that are not acknowledged, with the number of the first such
	// change. It is shared: do not modify it.
	Failing map[string]uint64
	// Replaying says that the handler receives every object, in key order, and has acknowledged the objects up to After.
	// Seq does not move meanwhile.
	Replaying bool
	After     string
	// Told says that the handler has been told that it begins anew.
	Told bool
	// Why is the reason why the handler last began anew.
	Why ResetReason
}

func positionOf(c format.Cursor) Position {
	return Position{Seq: c.Seq, Failing: c.Failing, Replaying: c.Replaying, After: c.After, Told: c.Told,
		Why: ResetReason(c.Why)}
}

func (p Position) stored() format.Cursor {
	return format.Cursor{Seq: p.Seq, Failing: p.Failing, Replaying: p.Replaying, After: p.After, Told: p.Told,
		Why: string(p.Why)}
}

// ResetReason is the reason why a durable handler receives every object.
type ResetReason string

// The reasons.
const (
	// ResetNew says that no handler of that name was registered.
	ResetNew ResetReason = changelog.ResetNew
	// ResetBehind says that tombstones which the handler had not acknowledged were dropped, because there were too many
	// or they were too old.
	ResetBehind ResetReason = changelog.ResetBehind
	// ResetDamage says that the file was damaged, and objects or changes of the collection may have been lost.
	ResetDamage ResetReason = changelog.ResetDamage
)

// Errors of cursors.
var (
	// ErrCursorOpen says that a durable handler of that name is registered in this process.
	ErrCursorOpen = changelog.ErrCursorOpen
	// ErrNoCursor says that no durable handler of that name has ever been registered, or that it was forgotten.
	ErrNoCursor = changelog.ErrNoCursor
	// ErrReset says that the handler was made to begin anew after Cursor.Position was called: call it again.
	ErrReset = changelog.ErrReset
)

// Cursor reads the committed changes of a collection for a durable handler, and stores its position. Its methods may be
// called concurrently.
type Cursor struct {
	c        *Collection
	name     string
	keysOnly bool
}

// OpenCursor registers a durable handler, or continues the one of that name. It fails with ErrCursorOpen if the handler
// is registered, and with ErrClosed after Close. The first cursor of a collection begins its changelog, which costs one
// more entry per write from then on.
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
	var first format.Cursor
	err = c.writeLocked(ctx, func(w *writer) (err error) {
		first, err = w.log.Register(name)
		return err
	})
	if err == nil {
		c.cursors.Add(name, first)
	}
	return err
}

// KeysOnly returns a Cursor of the same handler whose changes have no Object: objects are neither copied nor decoded.
func (c *Cursor) KeysOnly() *Cursor { return &Cursor{c: c.c, name: c.name, keysOnly: true} }

// Position returns how far the handler has come, and how often it was made to begin anew in this process.
func (c *Cursor) Position() (p Position, resets int, err error) {
	now, resets, err := c.c.cursors.Get(c.name)
	return positionOf(now), resets, err
}

// Acknowledge sets the position. The next commit writes it, at the latest Close. resets is the value that Position
// returned: if the handler was made to begin anew since, Acknowledge fails with ErrReset. It fails with ErrClosed once
// the collection or the store is being closed.
func (c *Cursor) Acknowledge(p Position, resets int) error {
	if err := c.c.cursors.Move(c.name, resets, p.stored()); err != nil {
		return fmt.Errorf("durable handler %q of %s: %w", c.name, c.c.id, err)
	}
	c.c.store.commits.add(c.c, 0)
	return nil
}

// Changed returns a channel that is closed after the next commit of the collection, when handlers begin anew, and when
// the collection or the store is closed.
func (c *Cursor) Changed() <-chan struct{} { return c.c.cursors.Changed() }

// Close lets the handler be registered again. Its position stays in the file.
func (c *Cursor) Close() { c.c.cursors.CloseOne(c.name) }

// ForgetCursor removes a durable handler: its position, and the tombstones that no other handler needs. It fails with
// ErrNoCursor if there is none of that name, with ErrCursorOpen while it is registered, and with ErrClosed after Close.
// With the last handler the changelog is dropped, unless RetainChanges keeps it. Like Drop, ForgetCursor may grow the
// file past Options.MaxSize, by some pages that are free afterwards.
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
	known, err := c.cursors.Open(name) // so that nobody else can open it meanwhile
	switch {
	case err != nil:
		return err
	case !known:
		return ErrNoCursor
	}
	err = c.writeLockedFor(ctx, forgetting, func(w *writer) error { return w.log.Forget(name) })
	if err != nil {
		c.cursors.CloseOne(name)
		return err
	}
	c.cursors.Remove(name)
	return nil
}

// CursorInfo is the state of a durable handler in the file.
type CursorInfo struct {
	Name string
	Position
	// Behind is the maximum number of changes that the handler has not acknowledged. While it is Replaying, the objects
	// that it has yet to receive are not included.
	Behind uint64
}

// Cursors returns the durable handlers of the collection, in the order of their names, as of the last commit.
func (c *Collection) Cursors(ctx context.Context) ([]CursorInfo, error) { return cursors(ctx, &c.read) }

// Cursors returns the durable handlers of the collection; see Collection.Cursors.
func (v *View) Cursors(ctx context.Context) ([]CursorInfo, error) { return cursors(ctx, &v.read) }

func cursors(ctx context.Context, r *read.Reader) (infos []CursorInfo, err error) {
	err = r.View(ctx, func(b *bolt.Bucket) error {
		st, err := state.Get(b, r.Name)
		if err != nil {
			return err
		}
		all, err := changelog.ReadCursors(b, r.Name, st.Log)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			at := positionOf(all[name])
			infos = append(infos, CursorInfo{Name: name, Position: at, Behind: st.Log.Last() - at.Seq})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// Cursors returns the durable handlers of a collection, as Collection.Cursors does. The collection need not be open.
func (s *Store) Cursors(ctx context.Context, id entry.Identity) ([]CursorInfo, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	r := s.reader(id.ID(), nil)
	return cursors(ctx, &r)
}
