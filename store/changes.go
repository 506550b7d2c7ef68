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

// Kept returns how long a collection's changes are kept for readers, and the range of offsets, as of the last commit.
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
