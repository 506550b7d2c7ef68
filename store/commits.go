package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A commit that fails is tried again after this, doubled up to the maximum.
const (
	commitRetry    = 200 * time.Millisecond
	commitRetryMax = 10 * time.Second
)

// commits brings what the collections of a store have pending into the file. There is a goroutine only
// while something is pending. The zero value needs turn and progress.
type commits struct {
	// turn has room for the one that commits, or that must not be committed beside.
	turn chan struct{}

	mu       sync.Mutex
	pending  map[*Collection]struct{} // guarded by mu
	bytes    int                      // of their overlays; guarded by mu
	since    time.Time                // when the first of it came; guarded by mu
	dueSince time.Time                // since when a commit has been due for its bytes; zero if none is; guarded by mu
	running  bool                     // the goroutine; guarded by mu
	full     chan struct{}            // has a token once bytes may have reached the limit
	err      error                    // of the last commit; guarded by mu
	limit    int                      // of bytes, see Collection.WaitRoom; set before there is another goroutine
	closed   bool                     // nothing is taken in any more; guarded by mu
	progress chan struct{}            // closed and replaced after each commit; guarded by mu
}

func newCommits(limit int) commits {
	return commits{
		turn: make(chan struct{}, 1), pending: map[*Collection]struct{}{},
		full: make(chan struct{}, 1), progress: make(chan struct{}), limit: limit,
	}
}

// Commit is an attempt to bring what one collection has pending into the file, together with what others have.
type Commit struct {
	// Objects is how many have been written or removed; 0 if only the resourceVersion has moved, and if it failed.
	Objects int
	// Took is how long the attempt has taken, for all of them.
	Took time.Duration
	// Err is nil if it succeeded. If not, the same and what has been added is tried again.
	Err error
}

// notePending says that c has something pending, and has grown by so many bytes.
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
	if !k.running && !k.closed { // Close commits what is there
		k.running = true
		s.goBackground("commit what is pending", s.commitLoop)
	}
}

// commitLoop commits until nothing is pending.
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

// awaitCommit waits until the next commit is due: after retry if the last one has failed. It is false if there is
// nothing to commit, or if the store is being closed.
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
		case <-progress: // somebody else has committed
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// nextCommit returns when the next commit is due, and what may change that. If there will be none, more is false and
// the goroutine has to end.
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
	k.drainFullLocked() // a token of while it was being committed
	return k.since.Add(s.o.commitInterval()), k.full, k.progress, true
}

// dueBytes is how much is committed at once: when there is no room for more, somebody waits.
func (s *Store) dueBytes() int { return min(s.o.commitBytes(), s.commits.limit) }

// noteDueLocked keeps dueSince, once bytes or what is committed has changed.
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

// Flush commits what is pending, in one transaction, and returns once it is in the file. If that fails everything stays
// pending, and is tried again in the background. A commit that has begun cannot be called off: if ctx ends meanwhile
// Flush returns, with an error that wraps ErrStillWriting, and the commit goes on.
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
	place, err := s.takeWriter(ctx, committing)
	if err != nil {
		turn()
		return fmt.Errorf("commit what is pending: %w", err)
	}
	done := make(chan error, 1)
	go func() { // which has turn and place, so Close waits for it
		err := s.commit(snaps)
		before := s.noteCommit(snaps, err)
		place() // not before memory knows which handlers the commit has set back: another write would write their old places
		s.logCommit(before, err)
		tellCommit(snaps, time.Since(begun), err)
		turn()
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", s.stillWriting(), context.Cause(ctx))
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

// takeTurn waits until nobody else commits.
func (s *Store) takeTurn(ctx context.Context) (release func(), err error) {
	select {
	case s.commits.turn <- struct{}{}:
		return func() { <-s.commits.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: waiting for a commit: %w", s.path, context.Cause(ctx))
	}
}

// snapshots returns what each collection has pending.
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
	err := s.updateHeld(context.Background(), committing, func(tx *bolt.Tx) error {
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

// logCommit says that commits have begun to fail, or to succeed again.
func (s *Store) logCommit(before, err error) {
	switch {
	case err != nil && before == nil:
		s.logger().Error(err, "What is pending cannot be committed; it stays in memory and will be tried again")
	case err == nil && before != nil:
		s.logger().Info("What was pending has been committed")
	}
}

// noteCommit takes what is in the file out of the overlays, and tells those who wait. The caller has the writer's
// place. It returns why the commit before has failed, if it has.
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

// dropPending forgets what c has pending.
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

// madeProgressLocked wakes those who wait for a commit, or for room.
func (k *commits) madeProgressLocked() {
	close(k.progress)
	k.progress = make(chan struct{})
}

// closeCommits makes the collections, and the places of their durable handlers, take in no more, and those who wait for
// room give up. What has been taken in is pending when it returns.
func (s *Store) closeCommits() {
	s.commits.mu.Lock()
	s.commits.closed = true
	s.commits.madeProgressLocked()
	s.commits.mu.Unlock()
	for _, c := range s.liveCollections() {
		c.front.Lock()   // a batch that was let in before is done when we get it
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

func (s *Store) closedError() error { return fmt.Errorf("%s: %w", s.path, ErrClosed) }

// CommitErr returns why the last commit of what is pending failed, or, wrapping ErrSlowDisk, that a write has not
// returned for ten seconds. It is nil once one has succeeded.
func (s *Store) CommitErr() error {
	s.commits.mu.Lock()
	err := s.commits.err
	s.commits.mu.Unlock()
	if err == nil {
		err = s.slowErr()
	}
	return err
}

// Committed returns a channel that is closed after the next attempt to commit what is pending, whether it succeeds or
// fails, when CommitErr begins or ceases to tell of a write that takes long, and when Close begins.
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

// Pending returns about how many bytes wait for a commit.
func (s *Store) Pending() int {
	s.commits.mu.Lock()
	defer s.commits.mu.Unlock()
	return s.commits.bytes
}
