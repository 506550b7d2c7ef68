package store

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/engine"
)

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
