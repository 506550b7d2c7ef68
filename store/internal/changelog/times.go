package changelog

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// markEvery is how often a time is written: changes are dated to a minute.
const markEvery = time.Minute

// Times dates the changes that are kept for readers, by what the bucket times has:
//
//	number → format.Mark   changes with this number, and those up to the next mark, were written then or up to a minute later
type Times []timeMark

type timeMark struct {
	seq uint64
	format.Mark
}

// Times reads the marks.
func (l *Log) Times() (Times, error) {
	if l.times == nil {
		return nil, nil
	}
	var all Times
	marks := boltfile.ScanAfter(l.times, "")
	for k, data := marks.Next(); k != nil; k, data = marks.Next() {
		if seq, ok := format.ParseSeqKey(k); ok {
			all = append(all, timeMark{seq, format.ParseMark(data)})
		}
	}
	return all, marks.Err
}

// At returns when a change was written, by the wall clock; zero if that is not known.
func (t Times) At(seq uint64) time.Time {
	for _, mark := range slices.Backward(t) {
		if mark.seq <= seq {
			return mark.Wall
		}
	}
	return time.Time{}
}

// Offset returns the offset behind which is all that was written at a time or later, and maybe some of the minute
// before and what was written at an unknown time after that. If no mark is that old it is that of the first that is
// dated, whose time is from; false if none is.
func (t Times) Offset(at time.Time) (after uint64, from time.Time, ok bool) {
	for _, mark := range slices.Backward(t) {
		switch {
		case mark.IsZero():
		case !mark.Wall.After(at):
			return mark.seq - 1, at, true
		default:
			after, from, ok = mark.seq-1, mark.Wall, true
		}
	}
	return after, from, ok
}

// mark dates the numbers that this transaction has given, unless the last mark does. Those of the first list have no
// time: nothing has changed. Without readers there are no marks.
func (w *Writer) mark() error {
	first, marked := w.first, w.state.Marked
	if w.state.Marked = 0; w.state.Retain == 0 {
		return nil
	}
	w.state.Marked = w.state.NextSeq
	if first == w.state.NextSeq && marked == first {
		return nil
	}
	b, err := w.b.CreateBucketIfNotExists(format.BucketTimes)
	if err != nil {
		return err
	}
	k, data := b.Cursor().Last()
	last := format.ParseMark(data)
	// Somebody wrote without readers, or was a program that does not date changes.
	if seq, ok := format.ParseSeqKey(k); ok && marked != first {
		from := format.SeqKey(cmp.Or(marked, seq+1))
		last = format.Mark{}
		if err := b.Put(from, last.Append(nil)); err != nil {
			return err
		}
	}
	clocks := w.out.Now()
	now := format.Mark{Steady: clocks.Steady, Wall: clocks.Wall}
	if w.out.First {
		now = format.Mark{}
	}
	if first < w.state.NextSeq && !dates(last, now) && (!now.IsZero() || !last.IsZero()) {
		if err := b.Put(format.SeqKey(first), now.Append(nil)); err != nil {
			return err
		}
	}
	return w.forgetTimes(b, clocks.Steady)
}

// dates reports whether a mark tells the time to a minute: neither clock has gone further since, nor back.
func dates(mark, now format.Mark) bool {
	steady, wall := now.Steady.Sub(mark.Steady), now.Wall.Sub(mark.Wall)
	return !mark.IsZero() && min(steady, wall) > -time.Second && max(steady, wall) < markEvery
}

// forgetTimes removes the marks of changes that are older than what is kept for readers.
func (w *Writer) forgetTimes(b *bolt.Bucket, now time.Time) error {
	var old [][]byte
	marks := b.Cursor()
	for k, data := marks.First(); k != nil && len(old) < trimPage; k, data = marks.Next() {
		if at := format.ParseMark(data); !at.IsZero() && now.Sub(at.Steady) <= w.state.Retain {
			break
		}
		old = append(old, bytes.Clone(k))
	}
	for _, k := range old[:max(len(old)-1, 0)] { // the last of them dates what follows it
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
