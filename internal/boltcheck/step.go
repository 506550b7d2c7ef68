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
// It notices a page that is reached twice if both times are in one step, or in steps of one transaction. In steps of
// different transactions it cannot, because the page may have been free in between. Then only the keys tell, which
// cannot be in the ranges of two parents in one bucket. The overflow pages of a large value have no keys: that one is
// used twice, in a file that is being written, shows only in the checksums of the records.
type Steps struct {
	// from is where the next step begins: the names of the buckets on the way, and a key in the last of them.
	from     [][]byte
	done     bool
	problems []string
	// seen has the pages that earlier steps have reached in the transaction with id txid of the file.
	seen bitmap
	of   io.ReaderAt
	tx   uint64
}

// errStepEnds ends a step.
var errStepEnds = errors.New("the step ends")

// listShare bounds the share of the freelist in the bytes that a step reads: one part in listShare.
const listShare = 4

// Next continues the walk for about size bytes, or for more if most of them would be the freelist. It returns the
// number of bytes read, the freelist included. It fails if the file cannot be read, or ctx ends.
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

// Problems returns the problems that the steps have found, as Walk does.
func (s *Steps) Problems() []string { return s.problems }

// step is one part of a walk.
type step struct {
	from       [][]byte
	size, read int // bytes
	next       [][]byte
}

// start returns the key of the bucket at which the step begins; nil if the step covers the bucket from its start.
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

// ends reports whether the step ends before a page with keys from low on, because it has read enough and the page is
// behind the step's start.
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
	s.next = append(s.next, append([]byte{}, low...)) // never nil, which would mean the start of the bucket
	return true
}

// passes reports whether an earlier step has covered the keys below high.
func (s *step) passes(t tree, high []byte) bool {
	start := s.start(t)
	return start != nil && bytes.Compare(high, start) <= 0
}

// passed reports whether an earlier step has covered the bucket with that name.
func (s *step) passed(t tree, name []byte) bool {
	start := s.start(t)
	return start != nil && bytes.Compare(name, start) < 0
}

// again releases a claimed page on the path to the end of the step: the next step claims it again.
func (w *walker) again(p page, err error) error {
	if errors.Is(err, errStepEnds) {
		for id := p.id; id <= p.id+p.overflow; id++ {
			w.seen.unset(id)
		}
	}
	return err
}

// known reports whether an earlier step has found the problem, on the path that both walked.
func (w *walker) known(problem string) bool {
	return w.step != nil && slices.Contains(w.problems, problem)
}
