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

// stepBytes is about how much of the file one transaction of a check reads, if the list of free pages is short.
const stepBytes = 1 << 20

// walkPages walks the pages by steps, each a read transaction of its own: one that lasted would keep pages from being
// used again, and a write that makes the mapping larger would wait for it. It tells p, if that is not nil, what each
// step has read. It reads the file, not the mapping. If it finds something, the writing of the file that has it stops;
// it ends if that is replaced by another, of which what has been found says nothing.
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

// foundBefore makes damage that ended a walk the last of the problems that it has found.
func foundBefore(problems []string, err error) ([]string, error) {
	if errors.Is(err, entry.ErrDamaged) {
		return append(problems, err.Error()), nil
	}
	return problems, err
}

// errAgain ends a walk of the branches that is to begin again.
var errAgain = errors.New("the walk begins again")

// branchesAtOnce is how long the first walk of the branches may take; see walkBranches.
const branchesAtOnce = 100 * time.Millisecond

// walkBranches walks the branches alone, about a hundredth of the pages, in one transaction: a leaf that is not read is
// known to be in use once only if no page is used again meanwhile. So that the transaction does not last as long as the
// disk takes to read them (10 GB have 100 MB of them: 8 s), the walk begins again after some time, which grows: what it
// has read by then comes from the kernel's memory (0.4 s for all).
func (s *Store) walkBranches(ctx context.Context) (problems []string, err error) {
	err = errAgain
	for most := branchesAtOnce; errors.Is(err, errAgain); most += most / 4 {
		err = s.viewPages(ctx, func(h *boltfile.Handle, pages *boltcheck.File) error {
			begun := time.Now()
			o := boltcheck.WalkOptions{LeafDepth: boltfile.BranchDepth, Pace: func(context.Context, int) error {
				if time.Since(begun) > most || !s.isCurrent(h) { // there is no transaction after Close
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

// viewFile calls fn in a read transaction, with the file's size and the transaction's id, until no writer has
// overtaken it. If fn finds the file damaged, all writing stops.
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

// verifyInBackground walks the pages slowly, and stops all writing if they are
// damaged. Of a file that was closed cleanly it walks the branches only, which were too many for Open: in
// them a bit that flipped on the disk would do the most harm.
func (s *Store) verifyInBackground(ctx context.Context, clean bool) {
	start := time.Now()
	var problems []string
	var err error
	if clean {
		problems, err = s.walkBranches(ctx)
	} else { // the branches are known
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

// pace holds a reader to a rate.
type pace struct {
	rate int // bytes a second
	read int // since the last wait
}

// wait is told how many bytes have been read. It waits rarely, for some hundredths of a second.
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
