package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// CommitOptions are the options of a CommitLoop.
type CommitOptions struct {
	Interval time.Duration // Interval is the maximum time from a change to its commit.
	// Bytes is the number of uncommitted bytes at which a commit is due at once. 0 means 32 MiB while each open collection
	// keeps all objects in memory, and otherwise 4 MiB.
	Bytes  int
	Limit  int  // Limit is the maximum number of uncommitted bytes, at which writers wait.
	AtOnce bool // AtOnce makes Collection.Apply commit before it returns, in tests.
}

// The default values of CommitOptions.Bytes.
const (
	defaultCommitBytes = 4 << 20
	commitBytesAll     = 32 << 20
)

// CommitLoop commits the changes of a store's collections to the file. Its goroutine runs only while a collection is
// dirty, that is, has uncommitted changes. Make it with NewCommitLoop, and set File before use. A collection in memory
// has a nil CommitLoop, with which CheckOpen, Ended and Backpressure never refuse a write.
type CommitLoop struct {
	CommitOptions
	File *boltfile.File

	// flushing is a semaphore of one. Flush holds it, and so does any operation that must not run during a Flush.
	flushing chan struct{}
	// unknown is the last commit if its outcome is unknown, or nil. Only the holder of flushing uses it.
	unknown *unknownCommit

	closed chan struct{} // closed is closed by Close, which refuses writes.
	ended  atomic.Bool   // ended is true once the store is closed, so that reads fail.

	mu       sync.Mutex
	open     int                      // open is the number of open collections; guarded by mu.
	partial  int                      // partial is the number of open collections without KeepsAll; guarded by mu.
	dirty    map[*Collection]struct{} // dirty has the collections with uncommitted changes; guarded by mu.
	bytes    int                      // bytes is the size of all uncommitted changes; guarded by mu.
	since    time.Time                // since is the time of the first change after the last snapshot; guarded by mu.
	dueSince time.Time                // dueSince is when bytes reached dueLocked(), or zero; guarded by mu.
	running  bool                     // running is true while the commit goroutine runs; guarded by mu.
	full     chan struct{}            // full has a token once there may be enough uncommitted bytes for a commit at once.
	err      error                    // err is the error of the last commit, or nil; guarded by mu.
	progress chan struct{}            // progress is closed and replaced after each attempt to commit; guarded by mu.
}

// NewCommitLoop returns a CommitLoop without collections.
func NewCommitLoop(o CommitOptions) *CommitLoop {
	return &CommitLoop{
		CommitOptions: o, flushing: make(chan struct{}, 1), closed: make(chan struct{}),
		dirty: map[*Collection]struct{}{}, full: make(chan struct{}, 1), progress: make(chan struct{}),
	}
}

// Join adds an open collection, which shares the limits of uncommitted bytes until Leave.
func (l *CommitLoop) Join(c *Collection) { l.count(c, 1) }

// Leave removes a collection that Join has added.
func (l *CommitLoop) Leave(c *Collection) { l.count(c, -1) }

func (l *CommitLoop) count(c *Collection, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open += n; !c.KeepsAll {
		l.partial += n
	}
}

var (
	committing = boltfile.Work{What: "a commit of the dirty changes"}
	copying    = boltfile.Work{What: "a copy of the file, because the outcome of a write is unknown", Long: true}
)

// A failed commit is retried after commitRetry. The delay doubles with each failure, up to commitRetryMax.
const (
	commitRetry    = 200 * time.Millisecond
	commitRetryMax = 10 * time.Second
)

// Add marks c as dirty. grown is the number of bytes by which its memtable has grown.
func (l *CommitLoop) Add(c *Collection, grown int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.dirty) == 0 {
		l.since = time.Now()
	}
	l.dirty[c] = struct{}{}
	l.bytes += grown
	due := l.dueLocked()
	l.noteDueLocked(due, false)
	if l.bytes >= due {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
	if !l.running && !l.isClosed() { // After CommitLoop.Close, the caller, Store.Close, does the last commit.
		l.running = true
		l.File.Go("commit the dirty changes", l.loop)
	}
}

func (l *CommitLoop) loop(ctx context.Context) {
	retry := commitRetry
	for l.await(ctx, retry) {
		if err := l.Flush(ctx); err == nil {
			retry = commitRetry
		} else {
			retry = min(2*retry, commitRetryMax)
		}
	}
}

// await waits until the next commit is due, or for retry after a failed commit. It returns false if no collection is
// dirty, or if the store is being closed.
func (l *CommitLoop) await(ctx context.Context, retry time.Duration) bool {
	retryAt := time.Now().Add(retry)
	for {
		at, full, progress, more := l.next(ctx, retryAt)
		if !more {
			return false
		}
		timer := time.NewTimer(time.Until(at))
		select {
		case <-timer.C:
			return true
		case <-full:
			timer.Stop()
			return true
		case <-progress: // Another call of Flush has committed.
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// next returns the time of the next commit, and two channels that signal that this time may have changed. If no
// collection is dirty or ctx has ended, it sets running to false and returns more as false.
func (l *CommitLoop) next(ctx context.Context, retryAt time.Time) (at time.Time, full, progress <-chan struct{},
	more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ctx.Err() != nil, len(l.dirty) == 0:
		l.running = false
		return at, nil, nil, false
	case l.err != nil:
		return retryAt, nil, l.progress, true
	case l.bytes >= l.dueLocked():
		return time.Now(), l.full, l.progress, true
	}
	l.drainFullLocked() // The channel full may still have a token from before the last commit.
	return l.since.Add(l.Interval), l.full, l.progress, true
}

// dueLocked returns the number of uncommitted bytes at which a commit is due at once: Bytes, but at most Limit.
func (l *CommitLoop) dueLocked() int {
	due := l.Bytes
	if due <= 0 {
		due = defaultCommitBytes
		if l.open > 0 && l.partial == 0 {
			due = commitBytesAll
		}
	}
	return min(due, l.Limit)
}

// noteDueLocked updates dueSince after bytes has changed. committed is true after a successful commit.
func (l *CommitLoop) noteDueLocked(due int, committed bool) {
	switch {
	case l.bytes < due:
		l.dueSince = time.Time{}
	case committed || l.dueSince.IsZero():
		l.dueSince = time.Now()
	}
}

func (l *CommitLoop) drainFullLocked() {
	select {
	case <-l.full:
	default:
	}
}

// Flush commits the changes of all dirty collections in one transaction; see store.Store.Flush.
func (l *CommitLoop) Flush(ctx context.Context) error {
	unlock, err := l.LockFlush(ctx)
	if err != nil {
		return err
	}
	if err := l.settle(ctx); err != nil {
		unlock()
		return fmt.Errorf("commit the dirty changes: %w", err)
	}
	snaps := l.snapshots()
	if len(snaps) == 0 {
		unlock()
		return nil
	}
	if ctx.Err() != nil {
		unlock()
		return fmt.Errorf("commit the dirty changes: %w", context.Cause(ctx))
	}
	begun := time.Now()
	for _, snap := range snaps {
		snap.prepare()
	}
	release, err := l.File.TakeWriter(ctx, committing)
	if err != nil {
		unlock()
		return fmt.Errorf("commit the dirty changes: %w", err)
	}
	done := make(chan error, 1)
	go func() { // This goroutine holds flushing and the writer lock, so Close waits for the commit.
		err := l.File.UpdateHeld(context.Background(), committing, func(tx *bolt.Tx) error { return l.write(tx, snaps) })
		if unknown := (*boltfile.UnknownError)(nil); errors.As(err, &unknown) {
			l.unknown = &unknownCommit{snaps, unknown}
		}
		before := l.note(snaps, err)
		release() // The next writer writes the cursors, which note has updated.
		l.log(before, err)
		for _, snap := range snaps {
			snap.notify(time.Since(begun), err)
		}
		unlock()
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", l.File.StillWriting(), context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("commit the dirty changes: %w", err)
	}
	return nil
}

// unknownCommit is a commit of unknown outcome.
type unknownCommit struct {
	snaps map[*Collection]*commit
	err   *boltfile.UnknownError
}

// settle has the file exchanged for a copy if the outcome of the last commit is unknown. If the copy has that commit,
// settle removes its changes from the memtables, so that they are not written twice.
func (l *CommitLoop) settle(ctx context.Context) error {
	if l.unknown == nil {
		return nil
	}
	begun := time.Now()
	release, err := l.File.TakeWriter(ctx, copying)
	if err != nil {
		return err
	}
	last := l.unknown
	committed, err := l.File.Resolve(ctx, last.err)
	switch {
	case err != nil:
		l.log(l.note(nil, err), err)
	case committed:
		l.log(l.note(last.snaps, nil), nil)
	}
	release()
	if err == nil {
		l.unknown = nil
	}
	if err != nil || committed {
		for _, snap := range last.snaps {
			snap.notify(time.Since(begun), err)
		}
	}
	return err
}

// LockFlush acquires the semaphore flushing. It fails if ctx ends first.
func (l *CommitLoop) LockFlush(ctx context.Context) (release func(), err error) {
	select {
	case l.flushing <- struct{}{}:
		return func() { <-l.flushing }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: waiting for a commit: %w", l.File.Path, context.Cause(ctx))
	}
}

// snapshots returns a snapshot of each dirty collection, and removes collections without changes from dirty.
func (l *CommitLoop) snapshots() map[*Collection]*commit {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drainFullLocked()
	l.since = time.Now()
	snaps := make(map[*Collection]*commit, len(l.dirty))
	for c := range l.dirty {
		if snap := c.beginCommit(); snap != nil {
			snaps[c] = snap
		} else {
			delete(l.dirty, c)
		}
	}
	return snaps
}

func (l *CommitLoop) write(tx *bolt.Tx, snaps map[*Collection]*commit) error {
	for _, snap := range snaps {
		if err := snap.write(tx); err != nil {
			return err
		}
	}
	return l.File.PutTimes(tx)
}

// log logs the first failed commit, and the first commit that succeeds after a failure.
func (l *CommitLoop) log(before, err error) {
	switch {
	case err != nil && before == nil:
		l.File.Logger().Error(err, "The dirty changes cannot be committed; they stay in memory, and the commit is retried")
	case err == nil && before != nil:
		l.File.Logger().Info("The dirty changes have been committed")
	}
}

// note processes the result of a commit with commit.done, and wakes all goroutines that wait for a commit. It
// returns the error of the previous commit. The caller has the writer lock.
func (l *CommitLoop) note(snaps map[*Collection]*commit, err error) (before error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, snap := range snaps {
		shrunk, clean := snap.done(err)
		l.bytes -= shrunk
		if clean {
			delete(l.dirty, c)
		}
	}
	before, l.err = l.err, err
	l.noteDueLocked(l.dueLocked(), err == nil)
	l.madeProgressLocked()
	return before
}

// Drop drops the uncommitted changes of c.
func (l *CommitLoop) Drop(c *Collection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= c.Read.Memtable.Drop()
	l.noteDueLocked(l.dueLocked(), false)
	if delete(l.dirty, c); len(l.dirty) == 0 {
		l.err = nil
	}
	l.madeProgressLocked()
}

// MadeProgress wakes every goroutine that waits for a commit or for the end of backpressure.
func (l *CommitLoop) MadeProgress() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.madeProgressLocked()
}

func (l *CommitLoop) madeProgressLocked() {
	close(l.progress)
	l.progress = make(chan struct{})
}

// Close makes CheckOpen and blocked calls of Backpressure fail. Call it once.
func (l *CommitLoop) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.closed)
	l.madeProgressLocked()
}

func (l *CommitLoop) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// CheckOpen returns an error once the store is being closed.
func (l *CommitLoop) CheckOpen() error {
	if l != nil && l.isClosed() {
		return l.closedError()
	}
	return nil
}

// EndReads makes the reads of all collections fail.
func (l *CommitLoop) EndReads() { l.ended.Store(true) }

// Ended reports whether EndReads was called.
func (l *CommitLoop) Ended() bool { return l != nil && l.ended.Load() }

func (l *CommitLoop) closedError() error {
	return fmt.Errorf("%s: %w", l.File.Path, boltfile.ErrClosed)
}

// Dirty reports whether any collection has uncommitted changes.
func (l *CommitLoop) Dirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.dirty) > 0
}

// Err returns the error of the last commit, or nil if it succeeded.
func (l *CommitLoop) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Progress returns a channel for writers that wait for memory. The next attempt to commit closes it, and so do
// MadeProgress and Close. The writer then checks its condition anew.
func (l *CommitLoop) Progress() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.progress
}

// Pending returns the approximate number of uncommitted bytes.
func (l *CommitLoop) Pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// commitPatience is how long paced writers, which are faster than the disk, wait for a due commit.
const commitPatience = 5 * time.Second

// Backpressure waits while too many bytes are uncommitted; see store.Collection.Backpressure. If paced is false, it
// does not wait for a due commit, but only at the limit.
func (l *CommitLoop) Backpressure(ctx context.Context, c *Collection, paced bool) error {
	if l == nil {
		return ctx.Err()
	}
	for {
		l.mu.Lock()
		full, pace := l.fillsLocked(c, l.Limit), time.Duration(0)
		closed := l.isClosed()
		if paced && !closed && l.err == nil && l.fillsLocked(c, 2*l.dueLocked()) {
			pace = time.Until(l.dueSince.Add(commitPatience))
		}
		err, progress := l.err, l.progress
		l.mu.Unlock()
		switch {
		case !full && pace <= 0:
			return nil
		case closed:
			return l.closedError()
		case err != nil:
			return err
		}
		if err := waitProgress(ctx, progress, full, pace); err != nil {
			return err
		}
	}
}

// fillsLocked reports whether c must wait at this bound for the uncommitted bytes of all open collections. It waits at
// the bound if it has at least its equal share, and always at twice the bound.
func (l *CommitLoop) fillsLocked(c *Collection, bound int) bool {
	return l.bytes >= 2*bound || l.bytes >= bound && c.Read.Memtable.Size() >= max(1, bound/max(1, l.open))
}

// waitProgress waits until progress is closed, and for atMost unless full is true. If ctx ends, it returns the cause.
func waitProgress(ctx context.Context, progress <-chan struct{}, full bool, atMost time.Duration) error {
	var over <-chan time.Time
	if !full {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-progress:
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
