package changelog

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// markEvery is the interval between time marks: changes are dated to a minute.
const markEvery = time.Minute

// Times has the time marks of the changes that are kept for readers, from the bucket times:
//
//	number → format.Mark   the changes from this number to the next mark were written at its time, or within a minute
//	                       after it
//
// A mark without a time begins undated changes. The first mark follows the first list, whose objects are no changes.
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
	if len(all) > 0 {
		if seq := undated(l.marked, l.next, all[len(all)-1].seq); seq < l.next {
			all = append(all, timeMark{seq: seq})
		}
	}
	return all, marks.Err
}

// undated returns the number of the first undated change after the last mark; next if there is none. A program that
// does not date changes, or that kept none for readers, may have written undated changes.
func undated(marked, next, last uint64) uint64 {
	return min(cmp.Or(marked, last+1), next)
}

// At returns when a change was written, by the wall clock; zero if that is not known.
func (l *Log) At(seq uint64) time.Time {
	if l.times == nil {
		return time.Time{}
	}
	marks := l.times.Cursor()
	before := marks.Prev
	last, _ := marks.Seek(format.SeqKey(seq + 1))
	if last == nil {
		before = marks.Last
	}
	k, data := before()
	if number, ok := format.ParseSeqKey(k); last == nil && ok && seq >= undated(l.marked, l.next, number) {
		return time.Time{}
	}
	return format.ParseMark(data).Wall
}

// Span describes the known changes for Times.Offset.
type Span struct {
	// Last is the number of the last change, and Oldest is the offset after which no change is missing.
	Last, Oldest uint64
	Now          time.Time
}

// Offset returns an offset before all changes written since the time at. Changes after the offset may be up to a minute
// older, or undated. No change after the returned time is missing: that is at, or a later time.
func (t Times) Offset(at time.Time, of Span) (after uint64, from time.Time) {
	for len(t) > 0 && t[0].IsZero() {
		t = t[1:]
	}
	if len(t) == 0 {
		return of.Last, of.Now
	}
	after, from = of.Last, later(at, t[0].Wall)
	for i := range t {
		if t.end(i, of.Now).After(at) { // the wall clock may have been set back since
			after = t[i].seq - 1
			break
		}
	}
	if of.Oldest <= after {
		return after, from
	}
	marks, _ := slices.BinarySearchFunc(t, of.Oldest+1,
		func(m timeMark, seq uint64) int { return cmp.Compare(m.seq, seq) })
	if marks > 0 { // changes up to Span.Oldest may be missing; the last mark before that dates them
		from = later(from, t.end(marks-1, of.Now))
	}
	return of.Oldest, from
}

// end returns the time before which the changes of mark i were written.
func (t Times) end(i int, now time.Time) time.Time {
	if !t[i].IsZero() {
		return t[i].Wall.Add(markEvery)
	}
	for _, next := range t[i+1:] {
		if !next.IsZero() {
			return next.Wall
		}
	}
	return now
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Newest returns the offset before the newest n changes; 0 if the changelog has fewer.
func (l *Log) Newest(n int) (after uint64) {
	live, gone := l.seqs.Cursor(), l.tombstones.Cursor()
	liveSeq, _ := live.Last()
	goneSeq, _ := gone.Last()
	for ; n > 0; n-- {
		if bytes.Compare(liveSeq, goneSeq) > 0 {
			liveSeq, _ = live.Prev()
		} else {
			goneSeq, _ = gone.Prev()
		}
	}
	before, _ := format.ParseSeqKey(slices.MaxFunc([][]byte{liveSeq, goneSeq}, bytes.Compare))
	return before
}

// mark stores the time of the numbers that this transaction has assigned, unless the last mark still applies. The
// objects of the first list get no time. Without readers there are no marks.
func (w *Writer) mark() error {
	first, next, marked := w.first, w.state.NextSeq, w.state.Marked
	if w.state.Marked = 0; w.state.Retain == 0 {
		return nil
	}
	w.state.Marked = next
	if first == next && marked == first {
		return nil
	}
	b, err := w.b.CreateBucketIfNotExists(format.BucketTimes)
	if err != nil {
		return err
	}
	clocks := w.out.Now()
	now := format.Mark{Steady: clocks.Steady, Wall: clocks.Wall}
	k, data := b.Cursor().Last()
	seq, dated := format.ParseSeqKey(k)
	last := format.ParseMark(data)
	switch {
	case w.out.First:
		if dated {
			err = b.Delete(bytes.Clone(k)) // the mark of an earlier part of the list
		}
		return errors.Join(err, b.Put(format.SeqKey(next), now.Append(nil)))
	case !dated:
		return b.Put(format.SeqKey(first), now.Append(nil))
	}
	if unknown := undated(marked, first, seq); unknown < first {
		last = format.Mark{}
		if err := b.Put(format.SeqKey(unknown), last.Append(nil)); err != nil {
			return err
		}
	}
	if first < next && !dates(last, now) {
		if err := b.Put(format.SeqKey(first), now.Append(nil)); err != nil {
			return err
		}
	}
	return w.forgetTimes(b, clocks.Steady)
}

// dates reports whether a mark still dates changes at now: neither the wall clock nor the steady clock has advanced by
// a minute since the mark, or gone back.
func dates(mark, now format.Mark) bool {
	steady, wall := now.Steady.Sub(mark.Steady), now.Wall.Sub(mark.Wall)
	return !mark.IsZero() && min(steady, wall) > -time.Second && max(steady, wall) < markEvery
}

// forgetTimes removes the marks of changes that are older than State.Retain. A mark without a time is as old as the
// next mark with a time, since its changes were written before that time.
func (w *Writer) forgetTimes(b *bolt.Bucket, now time.Time) error {
	var old [][]byte
	undated := 0 // undated is the number of undated marks at the end of old
	marks := b.Cursor()
	for k, data := marks.First(); k != nil && len(old) < trimPage; k, data = marks.Next() {
		switch at := format.ParseMark(data); {
		case at.IsZero():
			undated++
		case now.Sub(at.Steady) <= w.state.Retain:
			return w.deleteMarks(b, old[:max(len(old)-1-undated, 0)]) // the last mark dates later changes
		default:
			undated = 0
		}
		old = append(old, bytes.Clone(k))
	}
	return w.deleteMarks(b, old[:max(len(old)-1-undated, 0)])
}

func (w *Writer) deleteMarks(b *bolt.Bucket, keys [][]byte) error {
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
