package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// A failed build, for example for lack of space, is retried after retryMin. The delay doubles up to retryMax.
const (
	retryMin = time.Second
	retryMax = time.Minute
)

// IndexedRecord is a stored record in the state in which a build of indexes has read it.
type IndexedRecord struct {
	Key     string
	Seq     uint64 // A build skips a record that has another sequence number by now.
	Object  runtime.Object
	Terms   map[string][]string // Terms are the terms in the record's header, in plain text.
	Lacks   bool                // Lacks is true if an index lacks an entry for one of Terms.
	Renewed map[string][]string // Renewed are the terms in the indexes that are being built.
}

// indexBuilder is the state of the pass that builds the indexes that are not ready at the start of a process. Look-ups
// in these indexes wait for the pass. The zero value is ready to use.
type indexBuilder struct {
	mu      sync.Mutex
	running bool          // running is true while a goroutine is in runBuild; guarded by mu.
	failure error         // failure is the error of the last attempt to build; guarded by mu.
	changed chan struct{} // wake closes changed; nil without a waiting look-up; guarded by mu.
}

// begin returns true if no goroutine is in runBuild. The caller must then start one.
func (b *indexBuilder) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return false
	}
	b.running, b.failure = true, nil
	return true
}

// report sets the result of err and whether a goroutine is in runBuild, and wakes waiting look-ups.
func (b *indexBuilder) report(err error, running bool) {
	b.mu.Lock()
	b.failure, b.running = err, running
	b.mu.Unlock()
	b.wake()
}

// err returns the error of the last attempt, until the next attempt begins.
func (b *indexBuilder) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// wake makes waiting look-ups recheck whether their index is ready. Call it after a replacement of the IndexSet.
func (b *indexBuilder) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// nextChange returns a channel that the next wake closes. A look-up calls it before it checks whether its index is
// ready.
func (b *indexBuilder) nextChange() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// runBuild builds the indexes that are not ready in one pass. It retries until an attempt succeeds or fails with a
// final error, or ctx ends. If builder.begin returns true, call it in a new goroutine. It locks indexing during each
// attempt.
func (c *Collection) runBuild(ctx context.Context) {
	for retry := retryMin; ; retry = min(2*retry, retryMax) {
		names, err := c.attemptBuild(ctx)
		switch {
		case err == nil:
			c.builder.report(nil, false)
			return
		case ctx.Err() != nil:
			c.builder.report(boltfile.ErrClosed, false)
			return
		case c.isFinal(err):
			c.buildLogger().Error(err, "Indexes are not built; look-ups in them fail", "indexes", names)
			c.builder.report(err, false)
			return
		}
		c.buildLogger().Error(err, "Building indexes failed, will try again", "indexes", names, "after", retry)
		c.builder.report(err, true)
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
		c.builder.report(nil, true)
	}
}

// isFinal reports whether a retry of a failed build is useless: only another process can help.
func (c *Collection) isFinal(err error) bool {
	return c.Read.File.Err() != nil || errors.Is(err, ErrNoCollection) || errors.Is(err, boltfile.ErrClosed)
}

func (c *Collection) buildLogger() logr.Logger {
	return c.Read.File.Logger().WithValues("collection", c.ID.String())
}

func (c *Collection) attemptBuild(ctx context.Context) (names []string, err error) {
	if err := c.indexing.LockContext(ctx); err != nil {
		return nil, err
	}
	defer c.indexing.Unlock()
	if names = c.Set.Load().Unready(); len(names) == 0 {
		return nil, ctx.Err()
	}
	return names, c.buildNow(ctx, names)
}

// buildNow computes the terms of every record in the named indexes, page by page, and then marks the indexes as ready.
// The caller holds indexing, and no other lock.
func (c *Collection) buildNow(ctx context.Context, names []string) error {
	for after, more := "", true; more; {
		records, m, err := c.Read.IndexPage(ctx, after)
		if err != nil {
			return err
		}
		if more = m; len(records) == 0 {
			break
		}
		after = records[len(records)-1].Key
		if records = outdated(c.Set.Load(), names, records, c.buildLogger()); len(records) == 0 {
			continue
		}
		if err := c.reindex(ctx, names, records); err != nil {
			return err
		}
	}
	return c.setReady(ctx, names)
}

// outdated computes the terms of the records in the named indexes. It returns the records whose stored terms or index
// entries differ, and which must be rewritten.
func outdated(set *IndexSet, names []string, records []IndexedRecord, log logr.Logger) (old []IndexedRecord) {
	for _, record := range records {
		record.Renewed = set.Compute(names, record.Key, record.Object, func(err error) {
			log.Error(err, "An object is not in the index: the index function failed", "key", record.Key)
		})
		changed := func(name string) bool { return !slices.Equal(record.Renewed[name], record.Terms[name]) }
		if record.Lacks || slices.ContainsFunc(names, changed) {
			old = append(old, record)
		}
	}
	return old
}

// reindex replaces, in one transaction, the terms of the records in the named indexes with their Renewed terms, and
// updates the index entries. It skips records that were written since IndexPage: their writer has stored their terms.
func (c *Collection) reindex(ctx context.Context, names []string, records []IndexedRecord) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	return c.writeLocked(ctx, func(w *Writer) error {
		for _, record := range records {
			if err := w.Reindex(record, names); err != nil {
				return err
			}
		}
		return nil
	})
}

// setReady marks the named indexes as ready, first in the file and then for look-ups.
func (c *Collection) setReady(ctx context.Context, names []string) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	err := c.writeLocked(ctx, func(w *Writer) error {
		w.Indexes.Ready(names)
		return nil
	})
	if err == nil {
		c.putSet(c.Set.Load().WithReady(names...))
	}
	return err
}
