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

// walkPages holds a read transaction while it walks, so that no page is used
// anew meanwhile. It reads the file, not the mapping.
func (s *Store) walkPages(ctx context.Context, o boltcheck.WalkOptions) (problems []string, err error) {
	err = s.viewPages(ctx, func(pages *boltcheck.File) error {
		problems, err = pages.Walk(ctx, o)
		return err
	})
	if errors.Is(err, ErrDamaged) {
		return append(problems, err.Error()), nil
	}
	return problems, err
}

// viewPages calls fn with the pages of a read transaction.
func (s *Store) viewPages(ctx context.Context, fn func(pages *boltcheck.File) error) error {
	err := boltcheck.ErrOvertaken
	for errors.Is(err, boltcheck.ErrOvertaken) {
		err = s.viewHandle(ctx, func(h *handle, tx *bolt.Tx) error {
			info, err := h.file.Stat()
			if err != nil {
				return err
			}
			pages, err := boltcheck.OpenTx(h.file, info.Size(), uint64(tx.ID()))
			if err != nil {
				return ownErrors(err)
			}
			return fn(pages)
		})
	}
	return err
}

// verifyRate is how many bytes a second a background verification reads.
const verifyRate = 64 << 20

// verifyInBackground walks the pages slowly, and stops all writing if they are damaged.
func (s *Store) verifyInBackground(ctx context.Context) {
	p := pace{rate: verifyRate}
	start := time.Now()
	problems, err := s.walkPages(ctx, boltcheck.WalkOptions{Pace: p.wait})
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrClosed):
	case err != nil:
		s.logger().Error(err, "The store was not closed cleanly, and could not be verified")
	case len(problems) > 0:
		err := pagesError(s.path, problems)
		s.failNow(err)
		s.logger().Error(err, "The store was not closed cleanly and is damaged: it is not written any more")
	default:
		s.logger().V(2).Info("The store was not closed cleanly; its pages are good", "took", time.Since(start))
	}
}

// failNow is fail for what was found without a transaction.
func (s *Store) failNow(reason error) {
	if h, err := s.acquire(); err == nil {
		s.fail(h, reason)
		h.release()
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
