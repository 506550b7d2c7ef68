package check

import (
	"context"
	"errors"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

// stepBytes is about how many bytes one transaction of a check reads. It reads the list of free pages besides.
const stepBytes = 1 << 20

// Pages verifies all pages, and returns the problems it found. It works in steps, each in a read transaction of its
// own: a long transaction would keep free pages from being reused, and block a write that must enlarge the mapping. It
// reads the file, not the mapping. If it finds a problem it stops writes to that file, and it ends early if the file is
// replaced by another one.
func Pages(ctx context.Context, f File) ([]string, error) {
	p := newPace(f.Rate)
	var steps boltcheck.Steps
	var damaged *boltfile.Handle
	for !steps.Done() && (damaged == nil || f.IsCurrent(damaged)) {
		read := 0
		err := f.viewPages(ctx, func(h *boltfile.Handle, pages *boltcheck.File) (err error) {
			before := len(steps.Problems())
			if read, err = steps.Next(ctx, pages, stepBytes); len(steps.Problems()) > before {
				damaged = h
				f.Fail(h, boltfile.PagesError(f.Path, steps.Problems()))
			}
			return err
		})
		if err == nil {
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

// branchesAtOnce is the time limit of the first walk of the branches; see Branches.
const branchesAtOnce = 100 * time.Millisecond

// Branches verifies the branch pages only, about a hundredth of all pages, and returns the problems it found. It does
// not limit its rate, because it must finish in one transaction: if pages were reused meanwhile, it could not tell that
// a leaf is referenced once without reading the leaf. Reading all branches from the disk takes long (8 s for the 100 MB
// of a 10 GB file), so the walk begins again after a time limit, which grows: the next walk finds what was read in the
// page cache (0.4 s for all).
func Branches(ctx context.Context, f File) (problems []string, err error) {
	err = errAgain
	for most := branchesAtOnce; errors.Is(err, errAgain); most += most / 4 {
		err = f.viewPages(ctx, func(h *boltfile.Handle, pages *boltcheck.File) error {
			begun := time.Now()
			o := boltcheck.WalkOptions{LeafDepth: boltfile.BranchDepth, Pace: func(context.Context, int) error {
				if time.Since(begun) > most || !f.IsCurrent(h) { // after Close the next viewPages fails
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
	return foundBefore(problems, err)
}

// BackgroundRate is how many bytes a second a verification in the background reads.
const BackgroundRate = 64 << 20

// Unverified verifies, in the background, the pages that boltfile.File.Open has not verified, and stops all writing if
// they are damaged. If the file was closed cleanly these are branches: there a flipped bit would do the most harm.
func Unverified(f File) {
	unverified, clean := f.Unverified()
	if !unverified {
		return
	}
	f.Go("verify the pages", func(ctx context.Context) {
		verify := Pages
		if clean {
			verify = Branches
		}
		start := time.Now()
		switch problems, err := verify(ctx, f); {
		case ctx.Err() != nil || errors.Is(err, boltfile.ErrClosed):
		case err != nil:
			f.Logger().Error(err, "The store's pages could not be verified", "closedCleanly", clean)
		case len(problems) > 0:
			f.Logger().Error(boltfile.PagesError(f.Path, problems), "The store is damaged: it is not written any more",
				"closedCleanly", clean)
		default:
			f.Logger().V(2).Info("The store's pages are good", "closedCleanly", clean, "took", time.Since(start))
		}
	})
}
