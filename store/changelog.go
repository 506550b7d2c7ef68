package store

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/state"
)

// outside returns what the changelog uses of the collection.
func (c *Collection) outside() changelog.Outside {
	return changelog.Outside{
		MaxTombstones: c.tombstones, Now: c.store.file.Steady, AppendRecord: c.read.Coder.Append,
	}
}

// bury adds a tombstone for the object of old, if there is a changelog. x is the write that deletes it or replaces it
// by another object; x may be nil.
func (w *writer) bury(key string, old read.Stored, x *memtable.Write) error {
	if !w.log.Kept() {
		return nil
	}
	if last := x.LastOf(old.UID); last != nil {
		h := format.Header{UID: old.UID, RV: last.RV, Encoding: w.c.read.Codec.Name()}
		return w.log.Bury(key, old.Seq, h, last.Payload)
	}
	h := format.Header{UID: old.UID, RV: old.RV, Encoding: old.Encoding}
	b, err := w.c.read.Coder.OpenPlain(old.Objects, key, old.Header, old.Payload)
	switch {
	case isDamaged(err):
		return err
	case err != nil:
		h.Encoding, b.Payload = "", nil // this program cannot read the last state
	}
	return w.log.Bury(key, old.Seq, h, b.Payload)
}

// loadCursors reads the cursors. If one is damaged its handler begins anew, and reading it has failed the store, as a
// damaged record does; loadCursors returns nil, and a rebuild writes the cursors loaded here.
func (c *Collection) loadCursors(ctx context.Context) error {
	var all map[string]format.Cursor
	var st state.State
	err := c.read.View(ctx, func(b *bolt.Bucket) (err error) {
		if st, err = state.Get(b, c.read.Name); err != nil {
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
			return state.Update(tx, c.read.Name, func(b *bolt.Bucket, st *state.State) error {
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

// resetCursors makes all handlers begin anew, after a rebuild has lost objects or tombstones.
func (c *Collection) resetCursors(ctx context.Context) error {
	return c.read.View(ctx, func(b *bolt.Bucket) error {
		st, err := state.Get(b, c.read.Name)
		if err == nil {
			c.cursors.ResetAll(st.Log)
			c.store.commits.add(c, 0)
		}
		return err
	})
}

// makeRoom drops the tombstones that all handlers have passed, even those that are kept for readers. It is called after
// a write for which there was no space, so that the next write can use their pages. The caller has the writer's place.
func (s *Store) makeRoom() {
	for _, c := range s.live.list() {
		for c.cursors.Any() && c.trimPassed() == nil {
			s.logger().V(2).Info("Tombstones have been dropped to make room", "collection", c.id.String())
		}
	}
}

var errNonePassed = errors.New("there is no tombstone that all handlers have passed")

// trimPassed drops some of these tombstones in a transaction. It fails with errNonePassed if there is none. The caller
// has the writer's place.
func (c *Collection) trimPassed() error {
	var cursors *changelog.Snapshot
	err := c.store.file.UpdateHeld(context.Background(), trimming, func(tx *bolt.Tx) error {
		b, err := state.Bucket(tx, c.read.Name)
		if err != nil {
			return err
		}
		w, err := newWriter(c, b)
		if err != nil {
			return err
		}
		before := w.state.Log.Tombstones
		if cursors, err = w.log.Settle(true); err != nil {
			return err
		}
		if w.state.Log.Tombstones == before {
			return errNonePassed
		}
		return state.Put(b, c.read.Name, w.state)
	})
	c.noteCursors(cursors, err)
	return err
}

// noteCursors records the outcome of a transaction that has written cursors. The caller has the writer's place, since
// the next writer could otherwise write cursors as they were before this one has reset them.
func (c *Collection) noteCursors(written *changelog.Snapshot, err error) {
	switch {
	case err == nil:
		c.cursors.Committed(written)
	case errors.Is(err, ErrOutcomeUnknown):
		c.cursors.OutcomeUnknown(written)
	}
}
