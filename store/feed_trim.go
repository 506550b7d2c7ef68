package store

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

// Tombstones that a handler has not passed are kept up to this number and this age. If such a tombstone is dropped, the
// handler begins anew.
const (
	tombstoneCount = 100_000
	tombstoneAge   = 7 * 24 * time.Hour
	// trimPage is the maximum number of tombstones that one transaction drops.
	trimPage = 5_000
)

// settle writes the cursors that the file lacks, and drops tombstones as trim does. Handlers that have not passed a
// dropped tombstone begin anew.
func (f *feedWriter) settle() error {
	if f == nil || f.w.places == nil {
		return nil
	}
	s := f.w.places
	floor, err := f.trim(s)
	if err != nil {
		return err
	}
	handlers := f.w.bucket.Bucket(format.BucketHandlers)
	for name, place := range s.places {
		if handlers.Get([]byte(name)) == nil {
			continue // this transaction removes the handler
		}
		if place.low() < floor {
			place = again(f.w.state.NextSeq, ResetBehind)
			s.reset[name] = place
		} else if s.versions[name] == 0 {
			continue
		}
		if err := putPlace(handlers, f.w.c.name, name, place); err != nil {
			return err
		}
	}
	return nil
}

// trim drops the tombstones that no consumer needs, or that are too many or too old, and raises feedLacks accordingly.
// It returns the highest number of a dropped tombstone that a handler has not passed; 0 if there is none.
func (f *feedWriter) trim(s *placesSnapshot) (floor uint64, err error) {
	passed, kept := uint64(math.MaxUint64), f.w.state.retain
	for _, place := range s.places {
		passed = min(passed, place.low())
	}
	if f.tight {
		kept = 0
	}
	now := f.w.c.store.file.Steady()
	var drop [][]byte
	left := f.w.state.tombstones
	for k, data := range ascending(f.tombstones) {
		seq, ok := format.ParseSeqKey(k)
		if !ok || len(drop) == trimPage {
			break
		}
		behind := seq > passed
		needed := behind && !outdated(data, now, tombstoneAge) || kept > 0 && !outdated(data, now, kept)
		if needed && left <= f.w.c.limits.tombstones {
			break
		}
		if behind {
			floor = seq
		}
		f.w.state.feedLacks = max(f.w.state.feedLacks, seq)
		drop = append(drop, bytes.Clone(k))
		left--
	}
	for _, k := range drop {
		if err := f.tombstones.Delete(k); err != nil {
			return 0, err
		}
		f.w.tally(format.BucketTombstones, k, -1)
	}
	f.w.state.tombstones = left
	return floor, nil
}

// makeRoom drops the tombstones that all handlers have passed, even those that are kept for readers. It is called after
// a write for which there was no space, so that the next write can use their pages. The caller has the writer's place.
func (s *Store) makeRoom() {
	for _, c := range s.live.list() {
		for c.places.any() && c.trimPassed() == nil {
			s.logger().V(2).Info("Tombstones have been dropped to make room", "collection", c.id.String())
		}
	}
}

var errNonePassed = errors.New("there is no tombstone that all handlers have passed")

// trimPassed drops up to trimPage of these tombstones in a transaction. It fails with errNonePassed if there is none.
// The caller has the writer's place.
func (c *Collection) trimPassed() error {
	var handlers *placesSnapshot
	err := c.store.file.UpdateHeld(context.Background(), trimming, func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, c.name)
		if err != nil {
			return err
		}
		w, err := newWriter(c, b)
		if err != nil {
			return err
		}
		before := w.state.tombstones
		if w.feed != nil {
			w.feed.tight = true
		}
		if err := w.feed.settle(); err != nil {
			return err
		}
		if w.state.tombstones == before {
			return errNonePassed
		}
		handlers = w.places
		return putState(b, c.name, w.state)
	})
	switch {
	case err == nil:
		c.places.committed(handlers)
	case errors.Is(err, ErrOutcomeUnknown):
		c.places.unsure(handlers)
	}
	return err
}

// outdated reports whether a tombstone is older than most. now is a time of the store's steady clock.
func outdated(tombstone []byte, now time.Time, most time.Duration) bool {
	at, _ := format.TombstoneTime(tombstone)
	return now.Sub(at) > most
}

// ascending ranges over a bucket in the order of its keys.
func ascending(b *bolt.Bucket) func(yield func(k, v []byte) bool) {
	return func(yield func(k, v []byte) bool) {
		cur := b.Cursor()
		for k, v := cur.First(); k != nil && yield(k, v); k, v = cur.Next() {
		}
	}
}
