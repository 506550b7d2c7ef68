package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

// stepBytes is about how many bytes one transaction of a check reads. It reads the list of free pages besides.
const stepBytes = 1 << 20

// walkPages verifies all pages, and returns the problems it found. It works in steps, each in a read transaction of its
// own: a long transaction would keep free pages from being reused, and block a write that must enlarge the mapping. If
// p is not nil, it limits the rate. walkPages reads the file, not the mapping. If it finds a problem it stops writes to
// that file, and it ends early if the file is replaced by another one.
func (s *Store) walkPages(ctx context.Context, p *pace) ([]string, error) {
	var steps boltcheck.Steps
	var damaged *boltfile.Handle
	for !steps.Done() && (damaged == nil || s.isCurrent(damaged)) {
		read := 0
		err := s.viewPages(ctx, func(h *boltfile.Handle, pages *boltcheck.File) (err error) {
			before := len(steps.Problems())
			if read, err = steps.Next(ctx, pages, stepBytes); len(steps.Problems()) > before {
				damaged = h
				s.fail(h, boltfile.PagesError(s.path, steps.Problems()))
			}
			return err
		})
		if err == nil && p != nil {
			err = p.wait(ctx, read)
		}
		if err != nil {
			return foundBefore(steps.Problems(), err)
		}
	}
	return steps.Problems(), nil
}

// foundBefore appends err to the problems if it is damage, which has ended the walk. It returns any other err.
func foundBefore(problems []string, err error) ([]string, error) {
	if errors.Is(err, entry.ErrDamaged) {
		return append(problems, err.Error()), nil
	}
	return problems, err
}

// errAgain ends a walk of the branches that must begin again.
var errAgain = errors.New("the walk begins again")

// branchesAtOnce is the time limit of the first walk of the branches; see walkBranches.
const branchesAtOnce = 100 * time.Millisecond

// walkBranches verifies the branch pages only, about a hundredth of all pages, and returns the problems it found. It
// must finish in one transaction: if pages were reused meanwhile, it could not tell that a leaf is referenced once
// without reading the leaf. Reading all branches from the disk takes long (8 s for the 100 MB of a 10 GB file), so the
// walk begins again after a time limit, which grows: the next walk finds what was read in the page cache (0.4 s for
// all).
func (s *Store) walkBranches(ctx context.Context) (problems []string, err error) {
	err = errAgain
	for most := branchesAtOnce; errors.Is(err, errAgain); most += most / 4 {
		err = s.viewPages(ctx, func(h *boltfile.Handle, pages *boltcheck.File) error {
			begun := time.Now()
			o := boltcheck.WalkOptions{LeafDepth: boltfile.BranchDepth, Pace: func(context.Context, int) error {
				if time.Since(begun) > most || !s.isCurrent(h) { // after Close the next viewPages fails
					return errAgain
				}
				return nil
			}}
			problems, err = pages.Walk(ctx, o)
			if len(problems) > 0 {
				s.fail(h, boltfile.PagesError(s.path, problems))
			}
			return err
		})
	}
	return foundBefore(problems, err)
}

func (s *Store) isCurrent(h *boltfile.Handle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handle == h
}

// viewPages calls fn with the pages of a read transaction.
func (s *Store) viewPages(ctx context.Context, fn func(h *boltfile.Handle, pages *boltcheck.File) error) error {
	return s.viewFile(ctx, func(h *boltfile.Handle, size int64, txid uint64) error {
		pages, err := boltcheck.OpenTx(h.File, size, txid)
		if err != nil {
			return err
		}
		return fn(h, pages)
	})
}

// viewFile calls fn in a read transaction, with the file's size and the transaction's id. It repeats that while fn
// fails with ErrOvertaken: writers have reused pages. If fn finds the file damaged, all writing stops.
func (s *Store) viewFile(ctx context.Context, fn func(h *boltfile.Handle, size int64, txid uint64) error) error {
	err := boltcheck.ErrOvertaken
	for errors.Is(err, boltcheck.ErrOvertaken) {
		err = s.viewHandle(ctx, func(h *boltfile.Handle, tx *bolt.Tx) error {
			info, err := h.File.Stat()
			if err != nil {
				return err
			}
			err = boltfile.OwnErrors(fn(h, info.Size(), uint64(tx.ID())))
			if errors.Is(err, entry.ErrDamaged) {
				s.fail(h, fmt.Errorf("%s: %w", s.path, err))
			}
			return err
		})
	}
	return err
}

// verifyRate is how many bytes a second a background verification reads.
const verifyRate = 64 << 20

// verifyInBackground verifies the pages slowly, and stops all writing if they are damaged. If the file was closed
// cleanly it verifies only the branches, of which Open did not read all: there a flipped bit would do the most harm.
func (s *Store) verifyInBackground(ctx context.Context, clean bool) {
	start := time.Now()
	var problems []string
	var err error
	if clean {
		problems, err = s.walkBranches(ctx)
	} else { // Open has verified all branches
		problems, err = s.walkPages(ctx, &pace{rate: verifyRate})
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrClosed):
	case err != nil:
		s.logger().Error(err, "The store's pages could not be verified", "closedCleanly", clean)
	case len(problems) > 0:
		s.logger().Error(boltfile.PagesError(s.path, problems), "The store is damaged: it is not written any more",
			"closedCleanly",
			clean)
	default:
		s.logger().V(2).Info("The store's pages are good", "closedCleanly", clean, "took", time.Since(start))
	}
}

// pace limits the rate of a reader.
type pace struct {
	rate int // bytes a second
	read int // bytes read since the last pause
}

// wait is called after bytes have been read. It pauses rarely, for at least 50 ms, and fails if ctx ends meanwhile.
func (p *pace) wait(ctx context.Context, bytes int) error {
	p.read += bytes
	pause := time.Second * time.Duration(p.read) / time.Duration(p.rate)
	if pause < 50*time.Millisecond {
		return nil
	}
	p.read = 0
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
