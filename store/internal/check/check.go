package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

// Report is the result of Content. store.Report documents the fields.
type Report struct {
	Collections  int
	Objects      int
	IndexEntries int
	Sealed       int
	LeftOut      int
	LeftOutMore  bool
	Problems     []string
}

// maxProblems bounds the problems in a Report. If there are more, one more line says so.
const maxProblems = 1000

func (r *Report) problem(format string, args ...any) {
	switch n := len(r.Problems); {
	case n < maxProblems:
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	case n == maxProblems:
		r.Problems = append(r.Problems, "… and more")
	}
}

type content struct {
	File
	*Report
	handle *boltfile.Handle
	// read is the number of bytes read in this step; unpaid is the number of bytes read since the last pause in rest.
	read, unpaid int
	worst        string // worst is the first problem of this step that is no damaged record, or "".
}

// problem adds a problem for which a scrub stops all writes.
func (c *content) problem(format string, args ...any) {
	problem := fmt.Sprintf(format, args...)
	c.worst = cmp.Or(c.worst, problem)
	c.Report.problem("%s", problem)
}

// stepBytes is the approximate number of bytes that one transaction of a check reads.
const stepBytes = 1 << 20

// Content verifies the record of the data keys, the documents and the collections. It returns an error only for an
// unreadable file; problems are in the report.
func Content(ctx context.Context, f File) (Report, error) {
	c := &content{File: f, Report: &Report{}}
	err := c.all(ctx)
	if errors.Is(err, entry.ErrDamaged) {
		c.problem("%v", err)
		err = nil
	}
	return *c.Report, err
}

func (c *content) all(ctx context.Context) error {
	var names []string
	err := c.view(ctx, func(tx *bolt.Tx) error {
		root := tx.Bucket(format.BucketLarder)
		if root == nil {
			return nil
		}
		if _, err := format.ParseKeys(root.Get(format.KeyKeys)); errors.Is(err, entry.ErrDamaged) {
			c.problem("%v: what is sealed cannot be opened any more", err)
		}
		return root.ForEachBucket(func(name []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	if err != nil {
		return err
	}
	if err := c.documents(ctx); err != nil {
		return err
	}
	for _, name := range names {
		c.Collections++
		one := &collection{content: c, name: name, sealer: c.Keys.Sealer(name), dictionaries: map[uint64]bool{}}
		err := one.check(ctx)
		switch {
		case errors.Is(err, errDropped):
			c.Collections--
		case errors.Is(err, entry.ErrDamaged):
			one.problem("%v", err)
		case err != nil:
			return err
		}
	}
	return nil
}

// view runs fn in a read transaction. In a scrub, a check with a limited Rate, view stops all writes to the file if fn
// adds a problem other than a damaged record. It does not stop writes to a file that has replaced the checked file.
func (c *content) view(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return c.ViewHandle(ctx, func(h *boltfile.Handle, tx *bolt.Tx) error {
		c.handle, c.worst = h, ""
		err := fn(tx)
		if c.Rate > 0 && c.worst != "" {
			c.Fail(h, c.ProblemError(c.worst))
		}
		return err
	})
}

// pages verifies the pages of a bucket whose keys are between low and high. A nil high means no upper bound.
func (c *content) pages(ctx context.Context, b *bolt.Bucket, low, high []byte) error {
	size := c.handle.DB.Info().PageSize
	all := uint64(b.Tx().Size()) / uint64(size)
	problems, err := boltcheck.Range(ctx, c.handle.File, size, all, uint64(b.Root()), low, high)
	for _, problem := range problems {
		c.problem("%s", problem)
	}
	return err
}

// rest waits, after each step, to keep the rate. It makes rare pauses of at least 50 ms. It fails if ctx ends.
func (c *content) rest(ctx context.Context) error {
	c.unpaid += c.read
	c.read = 0
	if c.Rate == 0 {
		return nil
	}
	pause := time.Second * time.Duration(c.unpaid) / time.Duration(c.Rate)
	if pause < 50*time.Millisecond {
		return nil
	}
	c.unpaid = 0
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *content) documents(ctx context.Context) error {
	return c.view(ctx, func(tx *bolt.Tx) error {
		b := tx.Bucket(format.BucketDocuments)
		if b == nil {
			return nil
		}
		if err := c.pages(ctx, b, nil, nil); err != nil {
			return err
		}
		return b.ForEach(func(name, data []byte) error {
			if _, err := format.ParseDocument(string(name), data); err != nil {
				c.problem("document %s: %v", base.PrintableKey(string(name)), err)
			}
			return nil
		})
	})
}

// File is the file to check.
type File struct {
	*boltfile.File
	Keys *crypt.Ring
	// Rate is the number of bytes per second that Content reads; 0 for no limit. With a limit, Content stops writes to the
	// file when it finds damage other than a damaged record. Pages always does.
	Rate int
}

// ProblemError returns an error for a problem. It wraps entry.ErrDamaged.
func (f *File) ProblemError(problem string) error {
	return fmt.Errorf("%s: %s: %w", f.Path, problem, entry.ErrDamaged)
}

func (f *File) viewPages(ctx context.Context, fn func(h *boltfile.Handle, pages *boltcheck.File) error) error {
	return f.ViewFile(ctx, func(h *boltfile.Handle, size int64, txid uint64) error {
		pages, err := boltcheck.OpenTx(h.File, size, txid)
		if err != nil {
			return err
		}
		return fn(h, pages)
	})
}

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
			f.Logger().Error(boltfile.PagesError(f.Path, found.Problems), "The store is damaged", "closedCleanly", clean,
				"writable", f.Err() == nil)
		default:
			f.Logger().V(2).Info("The store has been verified", "closedCleanly", clean, "took", time.Since(start))
		}
	})
}
