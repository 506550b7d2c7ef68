package check

import (
	"context"
	"errors"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

var errAgain = errors.New("the walk begins again")

// pagesAtOnce is the time limit of the first walk in Pages.
const pagesAtOnce = 100 * time.Millisecond

// Pages verifies the branch pages, about a hundredth of all pages, and returns the problems it found. Content verifies
// the leaves. If Pages finds a problem, it stops writes to the file. It reads the file, not the mapping.
//
// Pages does not limit its rate, because it must finish in one transaction: if pages were reused meanwhile, it could
// not verify that a leaf is referenced once without reading the leaf. Reading all branch pages from the disk takes long
// (8 s for the 100 MB of a 10 GB file). So Pages starts the walk anew after a time limit, which grows. The next walk
// finds the pages of the previous one in the page cache (0.4 s for all of them).
func Pages(ctx context.Context, f File) (problems []string, err error) {
	err = errAgain
	for most := pagesAtOnce; errors.Is(err, errAgain); most += most / 4 {
		err = f.viewPages(ctx, func(h *boltfile.Handle, pages *boltcheck.File) error {
			begun := time.Now()
			o := boltcheck.WalkOptions{LeafDepth: boltfile.BranchDepth, Pace: func(context.Context, int) error {
				if time.Since(begun) > most || !f.IsCurrent(h) { // After File.Close, viewPages fails.
					return errAgain
				}
				return nil
			}}
			problems, err = pages.Walk(ctx, o)
			if len(problems) > 0 {
				f.Fail(h, boltfile.PagesError(f.Path, problems))
			}
			return err
		})
	}
	if errors.Is(err, entry.ErrDamaged) { // Damage has ended the walk of the pages early.
		return append(problems, err.Error()), nil
	}
	return problems, err
}

// BackgroundRate is the number of bytes per second that a verification in the background reads.
const BackgroundRate = 64 << 20

// Unverified verifies, in the background, the pages that boltfile.File.Open has not verified, and stops all writes if
// it finds damage. After a clean close these are branch pages, where a flipped bit would do the most harm. Otherwise
// Unverified verifies the content.
func Unverified(f File) {
	unverified, clean := f.Unverified()
	if !unverified {
		return
	}
	f.Go("verify the file", func(ctx context.Context) {
		start := time.Now()
		var found Report
		var err error
		if clean {
			found.Problems, err = Pages(ctx, f)
		} else {
			found, err = Content(ctx, f)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, boltfile.ErrClosed):
		case err != nil:
			f.Logger().Error(err, "The store could not be verified", "closedCleanly", clean)
		case len(found.Problems) > 0:
			f.Logger().Error(boltfile.PagesError(f.Path, found.Problems), "The store is damaged: it is not written any more",
				"closedCleanly", clean)
		default:
			f.Logger().V(2).Info("The store has been verified", "closedCleanly", clean, "took", time.Since(start))
		}
	})
}
