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

// Tombstones that a handler has not passed are kept up to so many, and so old. A handler behind one that is dropped
// begins anew.
const (
	tombstoneCount = 100_000
	tombstoneAge   = 7 * 24 * time.Hour
	// trimPage is how many one transaction drops.
	trimPage = 5_000
)

// settle writes the places that the file lacks, and drops the tombstones that nobody needs, or may need any more.
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
			continue // it was forgotten this moment
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

// trim drops tombstones that nobody needs, or may need any more, and moves feedLacks on with them. It returns the
// highest number among those that a handler has not passed; 0 if there is none.
func (f *feedWriter) trim(s *placesSnapshot) (floor uint64, err error) {
	passed, kept := uint64(math.MaxUint64), f.w.state.retain
	for _, place := range s.places {
		passed = min(passed, place.low())
	}
	if f.tight {
		kept = 0
	}
	now := f.w.c.store.steadyNow()
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

// makeRoom drops the tombstones that all handlers have passed, those that are retained for readers too, after a write
// that did not fit: it would have dropped some itself, but their pages are free no sooner than in the next. The caller
// has the writer's place.
func (s *Store) makeRoom() {
	for _, c := range s.liveCollections() {
		for c.places.any() && c.trimPassed() == nil {
			s.logger().V(2).Info("Tombstones have been dropped to make room", "collection", c.id.String())
		}
	}
}

var errNonePassed = errors.New("there is no tombstone that all handlers have passed")

// trimPassed drops some of them in a transaction. The caller has the writer's place.
func (c *Collection) trimPassed() error {
	var handlers *placesSnapshot
	err := c.store.updateHeld(context.Background(), trimming, func(tx *bolt.Tx) error {
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

// outdated reports whether a tombstone is too old, at a steady time, to be kept for one who has not passed it and has
// so long.
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
