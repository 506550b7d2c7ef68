package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A failed commit is retried after commitRetry, which doubles with each failure up to commitRetryMax.
const (
	commitRetry    = 200 * time.Millisecond
	commitRetryMax = 10 * time.Second
)

// commits is the state of committing the dirty changes of a store's collections to the file. commitLoop runs only while
// there are dirty collections. Make it with newCommits.
type commits struct {
	// turn is a semaphore of one, held by a Flush, and by whatever must not run during a Flush.
	turn chan struct{}

	mu       sync.Mutex
	pending  map[*Collection]struct{} // dirty collections; guarded by mu
	bytes    int                      // size of their memtables; guarded by mu
	since    time.Time                // when the first change since the last snapshot came; guarded by mu
	dueSince time.Time                // since when a commit is due because of bytes; zero if none is; guarded by mu
	running  bool                     // whether commitLoop runs; guarded by mu
	full     chan struct{}            // has a token once bytes may have reached dueBytes
	err      error                    // error of the last commit; nil if it succeeded; guarded by mu
	limit    int                      // bound of bytes, see Collection.WaitRoom; set before there is another goroutine
	closed   bool                     // whether Close has begun and writes are refused; guarded by mu
	progress chan struct{}            // closed and replaced after each commit; guarded by mu
}

func newCommits(limit int) commits {
	return commits{
		turn: make(chan struct{}, 1), pending: map[*Collection]struct{}{},
		full: make(chan struct{}, 1), progress: make(chan struct{}), limit: limit,
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

// notePending marks c as dirty. grown is by how many bytes its memtable has grown.
func (s *Store) notePending(c *Collection, grown int) {
	k := &s.commits
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 {
		k.since = time.Now()
	}
	k.pending[c] = struct{}{}
	k.bytes += grown
	k.noteDueLocked(s.dueBytes(), false)
	if k.bytes >= s.dueBytes() {
		select {
		case k.full <- struct{}{}:
		default:
		}
	}
	if !k.running && !k.closed { // once closed is set, Close commits
		k.running = true
		s.file.Go("commit what is pending", s.commitLoop)
	}
}

// commitLoop commits until no collection is dirty.
func (s *Store) commitLoop(ctx context.Context) {
	retry := commitRetry
	for s.awaitCommit(ctx, retry) {
		if err := s.Flush(ctx); err == nil {
			retry = commitRetry
		} else {
			retry = min(2*retry, commitRetryMax)
		}
	}
}

// awaitCommit waits until the next commit is due: after retry if the last one has failed. It returns false if no
// collection is dirty, or if the store is being closed.
func (s *Store) awaitCommit(ctx context.Context, retry time.Duration) bool {
	retryAt := time.Now().Add(retry)
	for {
		at, full, progress, more := s.nextCommit(ctx, retryAt)
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

// nextCommit returns when the next commit is due, and two channels that signal that this may have changed. If no
// collection is dirty or ctx has ended, more is false and commitLoop must end.
func (s *Store) nextCommit(ctx context.Context, retryAt time.Time) (at time.Time, full, progress <-chan struct{},
	more bool) {
	k := &s.commits
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ctx.Err() != nil, len(k.pending) == 0:
		k.running = false
		return at, nil, nil, false
	case k.err != nil:
		return retryAt, nil, k.progress, true
	case k.bytes >= s.dueBytes():
		return time.Now(), k.full, k.progress, true
	}
	k.drainFullLocked() // a token may be left from before the last commit
	return k.since.Add(s.o.commitInterval()), k.full, k.progress, true
}

// dueBytes is the size of dirty memtables at which a commit is due at once: CommitBytes, but at most limit, at which
// writers wait.
func (s *Store) dueBytes() int { return min(s.o.commitBytes(), s.commits.limit) }

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
// commit fails the changes stay dirty, and the commit is retried in the background. A commit that has begun cannot be
// canceled: if ctx ends meanwhile Flush returns an error that wraps ErrStillWriting, and the commit goes on.
func (s *Store) Flush(ctx context.Context) error {
	turn, err := s.takeTurn(ctx)
	if err != nil {
		return err
	}
	snaps := s.snapshots()
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
		c.pack(snap.Writes())
	}
	place, err := s.file.TakeWriter(ctx, committing)
	if err != nil {
		turn()
		return fmt.Errorf("commit what is pending: %w", err)
	}
	done := make(chan error, 1)
	go func() { // it holds turn and place, so Close waits for it
		err := s.commit(snaps)
		before := s.noteCommit(snaps, err)
		place() // after noteCommit, which resets cursors as the commit did: the next writer would write the old ones
		s.logCommit(before, err)
		tellCommit(snaps, time.Since(begun), err)
		turn()
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", s.file.StillWriting(), context.Cause(ctx))
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

// takeTurn acquires commits.turn. It fails if ctx ends first.
func (s *Store) takeTurn(ctx context.Context) (release func(), err error) {
	select {
	case s.commits.turn <- struct{}{}:
		return func() { <-s.commits.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: waiting for a commit: %w", s.file.Path, context.Cause(ctx))
	}
}

// snapshots returns a snapshot of each dirty collection. A collection without changes is no longer dirty.
func (s *Store) snapshots() map[*Collection]*snapshot {
	k := &s.commits
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drainFullLocked()
	k.since = time.Now()
	snaps := make(map[*Collection]*snapshot, len(k.pending))
	for c := range k.pending {
		snap := &snapshot{Snapshot: c.overlay.Snapshot()}
		if snap.Idle && !c.places.dirty() {
			delete(k.pending, c)
			continue
		}
		snaps[c] = snap
	}
	return snaps
}

// commit writes the snapshots in one transaction. The caller has the writer's place.
func (s *Store) commit(snaps map[*Collection]*snapshot) error {
	used := s.usedNotes.take()
	err := s.file.UpdateHeld(context.Background(), committing, func(tx *bolt.Tx) error {
		for c, snap := range snaps {
			if err := c.writeSnapshot(tx, snap); err != nil {
				return fmt.Errorf("%s: %w", c.id, err)
			}
		}
		return s.writeUsed(tx, used)
	})
	if err != nil {
		s.usedNotes.add(used)
		return err
	}
	for c := range snaps {
		c.idled.Store(true)
	}
	return nil
}

// logCommit logs when commits begin to fail, and when they succeed again.
func (s *Store) logCommit(before, err error) {
	switch {
	case err != nil && before == nil:
		s.logger().Error(err, "What is pending cannot be committed; it stays in memory and will be tried again")
	case err == nil && before != nil:
		s.logger().Info("What was pending has been committed")
	}
}

// noteCommit records the result of a commit. If it succeeded, noteCommit removes the committed changes from the
// memtables. It wakes all waiters, and returns the error of the commit before. The caller has the writer's place.
func (s *Store) noteCommit(snaps map[*Collection]*snapshot, err error) (before error) {
	k := &s.commits
	k.mu.Lock()
	defer k.mu.Unlock()
	for c, snap := range snaps {
		if errors.Is(err, ErrOutcomeUnknown) {
			c.places.unsure(snap.places)
		}
		if err != nil {
			continue
		}
		c.places.committed(snap.places)
		shrunk, clean := c.overlay.Committed(snap.Snapshot)
		k.bytes -= shrunk
		if clean && !c.places.dirty() {
			delete(k.pending, c)
		}
	}
	before, k.err = k.err, err
	k.noteDueLocked(s.dueBytes(), err == nil)
	k.madeProgressLocked()
	return before
}

// dropPending drops the dirty changes of c.
func (s *Store) dropPending(c *Collection) {
	k := &s.commits
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes -= c.overlay.Drop()
	k.noteDueLocked(s.dueBytes(), false)
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

// closeCommits makes the collections refuse writes, and their durable handlers refuse acknowledgements. Calls that wait
// for backpressure fail. When it returns, every change that was accepted is dirty or committed.
func (s *Store) closeCommits() {
	s.commits.mu.Lock()
	s.commits.closed = true
	s.commits.madeProgressLocked()
	s.commits.mu.Unlock()
	for _, c := range s.live.list() {
		c.front.Lock()   // waits for a batch that checked closed before it was set
		c.front.Unlock() //nolint:staticcheck // see above
		if c.places.close(); c.places.dirty() {
			s.notePending(c, 0)
		}
	}
}

// takesIn returns an error once the store is being closed.
func (s *Store) takesIn() error {
	s.commits.mu.Lock()
	defer s.commits.mu.Unlock()
	if s.commits.closed {
		return s.closedError()
	}
	return nil
}

func (s *Store) closedError() error { return fmt.Errorf("%s: %w", s.file.Path, ErrClosed) }

// CommitErr returns the error of the last commit of dirty changes; nil if it succeeded. If a write has not returned for
// ten seconds, CommitErr returns an error that wraps ErrSlowDisk.
func (s *Store) CommitErr() error {
	s.commits.mu.Lock()
	err := s.commits.err
	s.commits.mu.Unlock()
	if err == nil {
		err = s.file.SlowErr()
	}
	return err
}

// Committed returns a channel that is closed after the next attempt to commit dirty changes, whether it succeeds or
// fails, when CommitErr begins or ceases to return ErrSlowDisk, and when Close begins.
func (s *Store) Committed() <-chan struct{} {
	s.commits.mu.Lock()
	defer s.commits.mu.Unlock()
	return s.commits.progress
}

func (s *Store) hasPending() bool {
	s.commits.mu.Lock()
	defer s.commits.mu.Unlock()
	return len(s.commits.pending) > 0
}

// Pending returns about how many bytes of changes are dirty.
func (s *Store) Pending() int {
	s.commits.mu.Lock()
	defer s.commits.mu.Unlock()
	return s.commits.bytes
}
