package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/boltcheck"
)

// checkPages walks every page of the file as of one transaction, and returns what is wrong.
func (s *Store) checkPages(ctx context.Context) ([]string, error) {
	return s.walkPages(ctx, boltcheck.WalkOptions{})
}

// errReplaced ends a walk of a file that is not the store's any more.
var errReplaced = errors.New("the store has been closed or rebuilt meanwhile")

// walkPages holds a read transaction while it walks, so that no page is used
// anew meanwhile. It reads the file, not the mapping. If it finds something, all writing stops.
func (s *Store) walkPages(ctx context.Context, o boltcheck.WalkOptions) (problems []string, err error) {
	err = s.viewPages(ctx, func(h *handle, pages *boltcheck.File) error {
		pace := o.Pace
		o.Pace = func(ctx context.Context, bytes int) error {
			switch {
			case !s.isCurrent(h):
				return errReplaced
			case pace != nil:
				return pace(ctx, bytes)
			}
			return nil
		}
		problems, err = pages.Walk(ctx, o)
		if len(problems) > 0 {
			s.fail(h, pagesError(s.path, problems))
		}
		return err
	})
	if errors.Is(err, ErrDamaged) {
		return append(problems, err.Error()), nil
	}
	return problems, err
}

func (s *Store) isCurrent(h *handle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handle == h
}

// viewPages calls fn with the pages of a read transaction.
func (s *Store) viewPages(ctx context.Context, fn func(h *handle, pages *boltcheck.File) error) error {
	return s.viewFile(ctx, func(h *handle, size int64, txid uint64) error {
		pages, err := boltcheck.OpenTx(h.file, size, txid)
		if err != nil {
			return err
		}
		return fn(h, pages)
	})
}

// viewFile calls fn in a read transaction, with the file's size and the transaction's id, until no writer has
// overtaken it. If fn finds the file damaged, all writing stops.
func (s *Store) viewFile(ctx context.Context, fn func(h *handle, size int64, txid uint64) error) error {
	err := boltcheck.ErrOvertaken
	for errors.Is(err, boltcheck.ErrOvertaken) {
		err = s.viewHandle(ctx, func(h *handle, tx *bolt.Tx) error {
			info, err := h.file.Stat()
			if err != nil {
				return err
			}
			err = ownErrors(fn(h, info.Size(), uint64(tx.ID())))
			if errors.Is(err, ErrDamaged) {
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
// damaged. Of a file that was closed cleanly it walks the branches only: few pages, in
// which a bit that flipped on the disk would do the most harm.
func (s *Store) verifyInBackground(ctx context.Context, clean bool) {
	p := pace{rate: verifyRate}
	o := boltcheck.WalkOptions{Pace: p.wait}
	if clean {
		o.LeafDepth = branchDepth
	}
	start := time.Now()
	problems, err := s.walkPages(ctx, o)
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.Is(err, errReplaced):
	case err != nil:
		s.logger().Error(err, "The store's pages could not be verified", "closedCleanly", clean)
	case len(problems) > 0:
		s.logger().Error(pagesError(s.path, problems), "The store is damaged: it is not written any more", "closedCleanly", clean)
	default:
		s.logger().V(2).Info("The store's pages are good", "closedCleanly", clean, "took", time.Since(start))
	}
}

// pagesError is what a walk found as an error.
func pagesError(path string, problems []string) error {
	return fmt.Errorf("%w: %s has %d problems, the first is: %s", ErrDamaged, path, len(problems), problems[0])
}

// pace holds a reader to a rate.
type pace struct {
	rate int // bytes a second
	read int // since the last wait
}

// wait is for boltcheck.WalkOptions.Pace. It waits rarely, for some hundredths of a second.
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
