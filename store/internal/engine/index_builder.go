package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

// A failed build, for example for lack of space, is retried after retryMin. The delay doubles up to retryMax.
const (
	retryMin = time.Second
	retryMax = time.Minute
)

// IndexedRecords is the collection whose indexes are built. Its methods are not called in a transaction or under a
// lock.
type IndexedRecords interface {
	Set() *IndexSet
	// Page returns a page of the records after the key after, in key order, and whether more may follow.
	Page(ctx context.Context, after string) (records []IndexedRecord, more bool, err error)
	// Update replaces, in one transaction, the terms of the records in the named indexes with their Renewed terms, and
	// updates the index entries. It skips records that were written since Page: their writer has stored their terms.
	Update(ctx context.Context, names []string, records []IndexedRecord) error
	// SetReady marks the named indexes as ready, first in the file and then for look-ups.
	SetReady(ctx context.Context, names []string) error
	// Final reports whether another attempt after err would be useless.
	Final(err error) bool
}

// IndexedRecord is a stored record in the state in which a build of indexes has read it.
type IndexedRecord struct {
	Key     string
	Seq     uint64 // Update skips a record that has another sequence number by now.
	Object  runtime.Object
	Terms   map[string][]string // Terms are the terms in the record's header, in plain text.
	Lacks   bool                // LacksTerms is true if an index lacks an entry for one of Terms.
	Renewed map[string][]string // Renewed are the terms in the indexes that are being built.
}

// IndexBuilder is the state of the pass that builds the indexes that are not ready at the start of a process. Look-ups
// in these indexes wait for the pass. The zero value is ready to use.
type IndexBuilder struct {
	mu      sync.Mutex
	running bool          // running is true while a goroutine is in Run; guarded by mu.
	failure error         // failure is the error of the last attempt to build; guarded by mu.
	changed chan struct{} // Wake closes changed; nil without a waiting look-up; guarded by mu.
}

// Begin returns true if no goroutine runs Run. The caller must then start one.
func (b *IndexBuilder) Begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return false
	}
	b.running, b.failure = true, nil
	return true
}

// Report sets the result of Err and whether a goroutine runs Run, and wakes waiting look-ups.
func (b *IndexBuilder) Report(err error, running bool) {
	b.mu.Lock()
	b.failure, b.running = err, running
	b.mu.Unlock()
	b.Wake()
}

// Err returns the error of the last attempt, until the next attempt begins.
func (b *IndexBuilder) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// Wake makes waiting look-ups recheck whether their index is ready. Call it after a replacement of the IndexSet.
func (b *IndexBuilder) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Changed returns a channel that the next Wake closes. A look-up calls it before it checks whether its index is ready.
func (b *IndexBuilder) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// Run builds the indexes that are not ready in one pass. It retries until an attempt succeeds or fails with a final
// error, or ctx ends. If Begin returns true, call Run in a new goroutine. Run locks building during each attempt.
func (b *IndexBuilder) Run(ctx context.Context, r IndexedRecords, building base.Mutex, log logr.Logger) {
	for retry := retryMin; ; retry = min(2*retry, retryMax) {
		names, err := attempt(ctx, r, building, log)
		switch {
		case err == nil:
			b.Report(nil, false)
			return
		case ctx.Err() != nil:
			b.Report(boltfile.ErrClosed, false)
			return
		case r.Final(err):
			log.Error(err, "Indexes are not built; look-ups in them fail", "indexes", names)
			b.Report(err, false)
			return
		}
		log.Error(err, "Building indexes failed, will try again", "indexes", names, "after", retry)
		b.Report(err, true)
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
		b.Report(nil, true)
	}
}

func attempt(
	ctx context.Context, r IndexedRecords, building base.Mutex, log logr.Logger,
) (names []string, err error) {
	if err := building.LockContext(ctx); err != nil {
		return nil, err
	}
	defer building.Unlock()
	if names = r.Set().Unready(); len(names) == 0 {
		return nil, ctx.Err()
	}
	return names, BuildIndexes(ctx, r, names, log)
}

// BuildIndexes computes the terms of every record in the named indexes, page by page, and then marks the indexes as
// ready.
func BuildIndexes(ctx context.Context, r IndexedRecords, names []string, log logr.Logger) error {
	for after, more := "", true; more; {
		records, m, err := r.Page(ctx, after)
		if err != nil {
			return err
		}
		if more = m; len(records) == 0 {
			break
		}
		after = records[len(records)-1].Key
		if records = outdated(r.Set(), names, records, log); len(records) == 0 {
			continue
		}
		if err := r.Update(ctx, names, records); err != nil {
			return err
		}
	}
	return r.SetReady(ctx, names)
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
