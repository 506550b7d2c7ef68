package store

import (
	"context"
	"errors"
	"time"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/check"
)

// checked returns the store's file for a check that reads at most rate bytes a second; 0 is no limit.
func (s *Store) checked(rate int) check.File {
	return check.File{
		Path: s.path, View: s.viewHandle, IsCurrent: s.isCurrent, Fail: s.fail, Counts: &s.counts, Rate: rate,
		Writer: func(ctx context.Context) (func(), error) { return s.takeWriter(ctx, checking) },
		Opener: s.opener,
	}
}

func (s *Store) isCurrent(h *boltfile.Handle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handle == h
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
		problems, err = check.Branches(ctx, s.checked(verifyRate))
	} else { // Open has verified all branches
		problems, err = check.Pages(ctx, s.checked(verifyRate))
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrClosed):
	case err != nil:
		s.logger().Error(err, "The store's pages could not be verified", "closedCleanly", clean)
	case len(problems) > 0:
		s.logger().Error(boltfile.PagesError(s.path, problems), "The store is damaged: it is not written any more",
			"closedCleanly", clean)
	default:
		s.logger().V(2).Info("The store's pages are good", "closedCleanly", clean, "took", time.Since(start))
	}
}
