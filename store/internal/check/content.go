package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
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
// adds a problem. It does not stop writes to a file that has replaced the checked file meanwhile.
func (c *content) view(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return c.ViewHandle(ctx, func(h *boltfile.Handle, tx *bolt.Tx) error {
		before := len(c.Problems)
		c.handle = h
		err := fn(tx)
		if c.Rate > 0 && len(c.Problems) > before {
			c.Fail(h, c.ProblemError(c.Problems[before]))
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
