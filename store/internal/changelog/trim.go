package changelog

import (
	"bytes"
	"math"
	"time"

	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/format"
)

// MaxTombstones bounds the tombstones, even if more are needed. A tombstone that a cursor has not passed is kept up to
// maxAge, or State.Retain if that is longer. Then it is dropped, and the cursor is reset.
const (
	MaxTombstones = 100_000
	maxAge        = 7 * 24 * time.Hour
	// trimPage is the maximum number of tombstones that one transaction drops.
	trimPage = 5_000
)

// Settle writes the cursors that the file lacks, and drops tombstones that no consumer needs or that exceed a limit. It
// resets cursors that have not passed a dropped tombstone. If full is true, tombstones are not retained for readers.
// Pass the Snapshot, nil without consumers, to Cursors.Written after the transaction.
func (w *Writer) Settle(full bool) (*Snapshot, error) {
	if w.log == nil || w.cursors == nil {
		return w.cursors, nil
	}
	if err := w.mark(); err != nil {
		return nil, err
	}
	lost, err := w.trim(full)
	if err != nil {
		return nil, err
	}
	s := w.cursors
	for name, c := range s.all {
		if w.log.cursors.Get([]byte(name)) == nil {
			continue // this transaction removes the cursor
		}
		if low(c) < lost {
			c = w.state.Anew(consumer.ResetBehind)
			s.reset[name] = c
		} else if !s.dirty {
			continue
		}
		if err := PutCursor(w.log.cursors, w.collection, name, c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// trim drops the oldest tombstones that are over a limit or not needed, and raises State.Lacks. It returns the highest
// number of a dropped tombstone that a cursor has not passed; 0 if there is none.
func (w *Writer) trim(full bool) (lost uint64, err error) {
	passed, retain := uint64(math.MaxUint64), w.state.Retain // all cursors have passed the number passed
	for _, c := range w.cursors.all {
		passed = min(passed, low(c))
	}
	if full {
		retain = 0
	}
	now, left := w.out.Now().Steady, w.state.Tombstones
	var drop [][]byte
	oldest := w.log.tombstones.Cursor()
	for k, data := oldest.First(); k != nil && len(drop) < trimPage; k, data = oldest.Next() {
		seq, ok := format.ParseSeqKey(k)
		if !ok {
			break
		}
		at, _ := format.TombstoneTime(data)
		age, unread := now.Sub(at), seq > passed
		needed := unread && age <= maxAge || retain > 0 && age <= retain
		if needed && left <= w.out.MaxTombstones {
			break
		}
		if unread {
			lost = seq
		}
		w.state.Lacks = max(w.state.Lacks, seq)
		drop = append(drop, bytes.Clone(k))
		left--
	}
	for _, k := range drop {
		if err := w.log.tombstones.Delete(k); err != nil {
			return 0, err
		}
	}
	w.state.Tombstones = left
	return lost, nil
}
