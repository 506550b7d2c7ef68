package boltcheck

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
)

// Steps is a Walk in parts, each of which may be of another transaction. The zero value begins at the root.
//
// A page that is reached twice is noticed if both are in one step, or in steps of one transaction: a page that another
// transaction wrote may have been free meanwhile. What is left then are the keys, which cannot be in the ranges of two
// parents in one bucket. The overflow pages of a large value have no keys: that one is used twice in a file that is
// being written shows only in the checksums of the records.
type Steps struct {
	// from is where the next step begins: the names of the buckets on the way, and a key in the last of them.
	from     [][]byte
	done     bool
	problems []string
	// seen are the pages that the steps before have reached in the transaction with that id, of that file.
	seen bitmap
	of   io.ReaderAt
	tx   uint64
}

// errStepEnds ends a step.
var errStepEnds = errors.New("the step ends")

// listShare is how much of what a step reads may be the list of free pages: one part of so many.
const listShare = 4

// Next walks on and ends after about so many bytes, or more if f has so many free pages that most of them would be the
// list of those. It returns how many have been read, that list among them. The error is of reading, or the context's.
func (s *Steps) Next(ctx context.Context, f *File, size int) (read int, err error) {
	if s.seen == nil || s.of != f.r || s.tx != f.TxID {
		s.seen, s.of, s.tx = newBitmap(f.HighWater), f.r, f.TxID
	}
	w := &walker{f: f, ctx: ctx, seen: s.seen, problems: s.problems}
	w.step = &step{from: s.from, size: max(size, listShare*f.listed), read: f.listed}
	s.problems, err = w.walk()
	if err == nil {
		s.from, s.done = w.step.next, w.step.next == nil
	}
	return w.step.read, err
}

// Done reports whether there is no further step.
func (s *Steps) Done() bool { return s.done }

// Problems returns what the steps have found, as Walk does.
func (s *Steps) Problems() []string { return s.problems }

// step is the part of a walk that Next makes.
type step struct {
	from       [][]byte
	size, read int // bytes
	next       [][]byte
}

// start returns the key of the bucket at which the step begins, or nil if it is all of the bucket.
func (s *step) start(t tree) []byte {
	if s == nil || len(s.from) <= len(t.path) {
		return nil
	}
	for i, name := range t.path {
		if string(s.from[i]) != name {
			return nil
		}
	}
	return s.from[len(t.path)]
}

// ends reports whether the step ends before a page with keys from low on: it has read enough, and the next begins
// later.
func (s *step) ends(t tree, low []byte) bool {
	if s == nil || s.read < s.size {
		return false
	}
	if start := s.start(t); start != nil && bytes.Compare(low, start) <= 0 {
		return false
	}
	for _, name := range t.path {
		s.next = append(s.next, []byte(name))
	}
	s.next = append(s.next, append([]byte{}, low...)) // never nil, which start would take for all of the bucket
	return true
}

// passes reports whether the keys below high came in an earlier step.
func (s *step) passes(t tree, high []byte) bool {
	start := s.start(t)
	return start != nil && bytes.Compare(high, start) <= 0
}

// passed reports whether the bucket of that name came in an earlier step.
func (s *step) passed(t tree, name []byte) bool {
	start := s.start(t)
	return start != nil && bytes.Compare(name, start) < 0
}

// again gives up the claim on a page on the way to where a step has ended: the next one claims it.
func (w *walker) again(p page, err error) error {
	if errors.Is(err, errStepEnds) {
		for id := p.id; id <= p.id+p.overflow; id++ {
			w.seen.unset(id)
		}
	}
	return err
}

// known reports whether an earlier step has found the problem, on the way.
func (w *walker) known(problem string) bool {
	return w.step != nil && slices.Contains(w.problems, problem)
}
