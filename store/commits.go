package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/usage"
)

// A failed commit is retried after commitRetry, which doubles with each failure up to commitRetryMax.
const (
	commitRetry    = 200 * time.Millisecond
	commitRetryMax = 10 * time.Second
)

// commits commits the dirty changes of a store's collections to the file. Its loop runs only while there are dirty
// collections. Make it with newCommits.
type commits struct {
	file     *boltfile.File
	used     *usage.Usage
	interval time.Duration // how long changes wait for their commit
	enough   int           // number of dirty bytes that cause a commit at once

	// turn is a semaphore of one, held by a Flush, and by whatever must not run during a Flush.
	turn chan struct{}

	mu       sync.Mutex
	pending  map[*Collection]struct{} // dirty collections; guarded by mu
	bytes    int                      // size of their memtables; guarded by mu
	since    time.Time                // when the first change since the last snapshot came; guarded by mu
	dueSince time.Time                // since when a commit is due because of bytes; zero if none is; guarded by mu
	running  bool                     // whether loop runs; guarded by mu
	full     chan struct{}            // has a token once bytes may have reached due
	err      error                    // error of the last commit; nil if it succeeded; guarded by mu
	limit    int                      // bound of bytes, see Collection.Backpressure; set before there is another goroutine
	closed   bool                     // whether Close has begun and writes are refused; guarded by mu
	progress chan struct{}            // closed and replaced after each commit; guarded by mu
}

func newCommits(o Options) commits {
	return commits{
		interval: o.commitInterval(), enough: o.commitBytes(), limit: dirtyLimitOf(o.Hooks),
		turn: make(chan struct{}, 1), pending: map[*Collection]struct{}{},
		full: make(chan struct{}, 1), progress: make(chan struct{}),
	}
}

// Commit describes an attempt to commit the dirty changes of one collection, in one transaction with those of others.
type Commit struct {
	// Objects is how many objects were written or removed; 0 if only the resourceVersion changed, or if it failed.
	Objects int
	// Took is how long the attempt took, for all collections together.
	Took time.Duration
	// Err is nil if the attempt succeeded. If it failed the changes stay dirty, and the next attempt includes them.
	Err error
}

// add marks c as dirty. grown is by how many bytes its memtable has grown.
func (k *commits) add(c *Collection, grown int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 {
		k.since = time.Now()
	}
	k.pending[c] = struct{}{}
	k.bytes += grown
	k.noteDueLocked(k.due(), false)
	if k.bytes >= k.due() {
		select {
		case k.full <- struct{}{}:
		default:
		}
	}
	if !k.running && !k.closed { // once closed is set, Close commits
		k.running = true
		k.file.Go("commit what is pending", k.loop)
	}
}

// loop commits until no collection is dirty.
func (k *commits) loop(ctx context.Context) {
	retry := commitRetry
	for k.await(ctx, retry) {
		if err := k.flush(ctx); err == nil {
			retry = commitRetry
		} else {
			retry = min(2*retry, commitRetryMax)
		}
	}
}

// await waits until the next commit is due: after retry if the last one has failed. It returns false if no
// collection is dirty, or if the store is being closed.
func (k *commits) await(ctx context.Context, retry time.Duration) bool {
	retryAt := time.Now().Add(retry)
	for {
		at, full, progress, more := k.next(ctx, retryAt)
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
		case <-progress: // another Flush has committed
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// next returns when the next commit is due, and two channels that signal that this may have changed. If no
// collection is dirty or ctx has ended, more is false and loop must end.
func (k *commits) next(ctx context.Context, retryAt time.Time) (at time.Time, full, progress <-chan struct{},
	more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ctx.Err() != nil, len(k.pending) == 0:
		k.running = false
		return at, nil, nil, false
	case k.err != nil:
		return retryAt, nil, k.progress, true
	case k.bytes >= k.due():
		return time.Now(), k.full, k.progress, true
	}
	k.drainFullLocked() // a token may be left from before the last commit
	return k.since.Add(k.interval), k.full, k.progress, true
}

// due is the size of dirty memtables at which a commit is due at once: CommitBytes, but at most limit, at which
// writers wait.
func (k *commits) due() int { return min(k.enough, k.limit) }

// noteDueLocked updates dueSince after bytes has changed. committed says that a commit has just succeeded.
func (k *commits) noteDueLocked(due int, committed bool) {
	switch {
	case k.bytes < due:
		k.dueSince = time.Time{}
	case committed || k.dueSince.IsZero():
		k.dueSince = time.Now()
	}
}

func (k *commits) drainFullLocked() {
	select {
	case <-k.full:
	default:
	}
}

// Flush commits the dirty changes of all collections in one transaction, and returns once they are in the file. If the
// write fails the changes stay dirty, and the commit is retried in the background. A commit that has begun cannot be
// canceled: if ctx ends meanwhile Flush returns an error that wraps ErrStillWriting, and the commit goes on.
func (s *Store) Flush(ctx context.Context) error { return s.commits.flush(ctx) }

func (k *commits) flush(ctx context.Context) error {
	turn, err := k.takeTurn(ctx)
	if err != nil {
		return err
	}
	snaps := k.snapshots()
	if len(snaps) == 0 {
		turn()
		return nil
	}
	if ctx.Err() != nil {
		turn()
		return fmt.Errorf("commit what is pending: %w", context.Cause(ctx))
	}
	begun := time.Now()
	for c, snap := range snaps {
		c.compress(snap.Writes())
	}
	place, err := k.file.TakeWriter(ctx, committing)
	if err != nil {
		turn()
		return fmt.Errorf("commit what is pending: %w", err)
	}
	done := make(chan error, 1)
	go func() { // it holds turn and place, so Close waits for it
		err := k.write(snaps)
		before := k.note(snaps, err)
		place() // after note, which resets cursors as the commit did: the next writer would write the old ones
		k.log(before, err)
		tellCommit(snaps, time.Since(begun), err)
		turn()
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", k.file.StillWriting(), context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("commit what is pending: %w", err)
	}
	return nil
}

func tellCommit(snaps map[*Collection]*snapshot, took time.Duration, err error) {
	for c, snap := range snaps {
		if c.committed == nil {
			continue
		}
		done := Commit{Took: took, Err: err}
		if err == nil {
			done.Objects = snap.Len()
		}
		c.committed(done)
	}
}

// takeTurn acquires turn. It fails if ctx ends first.
func (k *commits) takeTurn(ctx context.Context) (release func(), err error) {
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: waiting for a commit: %w", k.file.Path, context.Cause(ctx))
	}
}

// snapshots returns a snapshot of each dirty collection. A collection without changes is no longer dirty.
func (k *commits) snapshots() map[*Collection]*snapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drainFullLocked()
	k.since = time.Now()
	snaps := make(map[*Collection]*snapshot, len(k.pending))
	for c := range k.pending {
		snap := &snapshot{Snapshot: c.read.Memtable.Snapshot()}
		if snap.Idle && !c.cursors.Dirty() {
			delete(k.pending, c)
			continue
		}
		snaps[c] = snap
	}
	return snaps
}

// write writes the snapshots in one transaction. The caller has the writer's place.
func (k *commits) write(snaps map[*Collection]*snapshot) error {
	used := k.used.Take()
	err := k.file.UpdateHeld(context.Background(), committing, func(tx *bolt.Tx) error {
		for c, snap := range snaps {
			if err := c.writeSnapshot(tx, snap); err != nil {
				return fmt.Errorf("%s: %w", c.id, err)
			}
		}
		return k.used.Write(tx, used)
	})
	if err != nil {
		k.used.Add(used)
		return err
	}
	for c := range snaps {
		c.idled.Store(true)
	}
	return nil
}

// log logs when commits begin to fail, and when they succeed again.
func (k *commits) log(before, err error) {
	switch {
	case err != nil && before == nil:
		k.file.Logger().Error(err, "What is pending cannot be committed; it stays in memory and will be tried again")
	case err == nil && before != nil:
		k.file.Logger().Info("What was pending has been committed")
	}
}

// note records the result of a commit. If it succeeded, note removes the committed changes from the
// memtables. It wakes all waiters, and returns the error of the commit before. The caller has the writer's place.
func (k *commits) note(snaps map[*Collection]*snapshot, err error) (before error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c, snap := range snaps {
		c.noteCursors(snap.cursors, err)
		if err != nil {
			continue
		}
		shrunk, clean := c.read.Memtable.Committed(snap.Snapshot)
		k.bytes -= shrunk
		if clean && !c.cursors.Dirty() {
			delete(k.pending, c)
		}
	}
	before, k.err = k.err, err
	k.noteDueLocked(k.due(), err == nil)
	k.madeProgressLocked()
	return before
}

// drop drops the dirty changes of c.
func (k *commits) drop(c *Collection) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes -= c.read.Memtable.Drop()
	k.noteDueLocked(k.due(), false)
	if delete(k.pending, c); len(k.pending) == 0 {
		k.err = nil
	}
	k.madeProgressLocked()
}

func (k *commits) madeProgress() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.madeProgressLocked()
}

// madeProgressLocked wakes every goroutine that waits for a commit or for backpressure to end.
func (k *commits) madeProgressLocked() {
	close(k.progress)
	k.progress = make(chan struct{})
}

// close makes the live collections refuse writes, and their durable handlers refuse acknowledgements. Calls that wait
// for backpressure fail. When it returns, every change that was accepted is dirty or committed.
func (k *commits) close(live []*Collection) {
	k.mu.Lock()
	k.closed = true
	k.madeProgressLocked()
	k.mu.Unlock()
	for _, c := range live {
		c.in.Front.Lock()   // waits for a batch that checked closed before it was set
		c.in.Front.Unlock() //nolint:staticcheck // see above
		if c.cursors.Close(); c.cursors.Dirty() {
			k.add(c, 0)
		}
	}
}

// takesIn returns an error once the store is being closed.
func (k *commits) takesIn() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return k.closedError()
	}
	return nil
}

func (k *commits) closedError() error { return fmt.Errorf("%s: %w", k.file.Path, ErrClosed) }

// CommitErr returns the error of the last commit of dirty changes; nil if it succeeded. If a write has not returned for
// ten seconds, CommitErr returns an error that wraps ErrSlowDisk.
func (s *Store) CommitErr() error {
	k := &s.commits
	k.mu.Lock()
	err := k.err
	k.mu.Unlock()
	if err == nil {
		err = k.file.SlowErr()
	}
	return err
}

// Committed returns a channel that is closed after the next attempt to commit dirty changes, whether it succeeds or
// fails, when CommitErr begins or ceases to return ErrSlowDisk, and when Close begins.
func (s *Store) Committed() <-chan struct{} {
	k := &s.commits
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.progress
}

// dirty reports whether any collection is.
func (k *commits) dirty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.pending) > 0
}

// Pending returns about how many bytes of changes are dirty.
func (s *Store) Pending() int {
	k := &s.commits
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bytes
}
