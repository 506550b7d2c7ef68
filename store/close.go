package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// closeWait bounds Close, of a store and of a collection, where the disk does not finish a write: it cannot be called
// off, and whoever ends a process kills it after a while (Kubernetes after 30 s, in which the informers have to end
// too).
const closeWait = 10 * time.Second

// ending is the closing of a store.
type ending struct {
	begin sync.Once
	begun chan struct{}
	done  chan struct{}
	err   error // set before done is closed
}

func newEnding() ending { return ending{begun: make(chan struct{}), done: make(chan struct{})} }

// Closing returns a channel that is closed when Close is called.
func (s *Store) Closing() <-chan struct{} { return s.ending.begun }

// Close waits for the background work to end, commits what is pending, marks the file as cleanly closed
// and closes it. Closing twice does nothing. Those who wait for room (Apply, WaitRoom) get ErrClosed at once.
//
// It returns after ten seconds, with an error that wraps ErrStillWriting, if the disk has not finished a write by then.
// The closing goes on: it ends when that write does, and the file stays locked by this process until then.
func (s *Store) Close() error {
	first := false
	s.ending.begin.Do(func() {
		first = true
		close(s.ending.begun)
		go func() {
			defer close(s.ending.done)
			s.ending.err = s.end()
		}()
	})
	if err := s.awaitDisk(s.ending.done); err != nil {
		return fmt.Errorf("close the store %s: %w", s.path, err)
	}
	if !first {
		return nil
	}
	return s.ending.err
}

// awaitDisk waits for what ends when the disk has finished what it was given, but no longer than closeWait.
func (s *Store) awaitDisk(done <-chan struct{}) error {
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
	}
	select {
	case <-done:
		return nil
	default:
		return s.stillWriting()
	}
}

// stillWriting says what goes on.
func (s *Store) stillWriting() error {
	if w := s.writing.Load(); w != nil {
		return fmt.Errorf("%v: %w", w, ErrStillWriting)
	}
	return fmt.Errorf("work in the background has not ended: %w", ErrStillWriting)
}

// end is Close, however long the disk takes.
func (s *Store) end() error {
	s.closeCommits()
	s.background.close()
	flushed := s.flushAtClose()
	if turn, err := s.takeTurn(context.Background()); err == nil {
		turn() // whoever has begun a Flush may have gone, and has told of it now
	}
	release, err := s.takeWriter(context.Background(), closing)
	if err != nil {
		return err
	}
	defer release()
	if flushed == nil && s.Err() == nil {
		if err := s.keepName(context.Background()); err != nil && !errors.Is(err, ErrClosed) {
			flushed = fmt.Errorf("close the store %s: %w", s.path, err)
		}
	}
	s.background.wait()
	s.mu.Lock()
	h, failure := s.handle, s.failure
	s.replaceHandleLocked(nil)
	s.mu.Unlock()
	if h == nil {
		return nil
	}
	if !s.ReadOnly() && failure == nil {
		used := s.usedNotes.take()
		err := h.Update(func(tx *bolt.Tx) error {
			return errors.Join(s.writeUsed(tx, used), s.putTimes(tx),
				putClean(tx, true))
		}, (*bolt.Tx).Commit)
		if err != nil {
			s.logger().Error(err, "The store could not be marked as closed cleanly; it will be verified when it is next opened")
		}
	}
	err = h.Close()
	if !h.Stuck.Load() {
		s.keys.wipe() // no transaction is left that needs them
	}
	if err != nil {
		return fmt.Errorf("close the store %s: %w", s.path, err)
	}
	return flushed
}

// flushAtClose commits what is pending. What it cannot write is lost to the file, which is no harm: the server sends
// it again.
func (s *Store) flushAtClose() error {
	if !s.hasPending() {
		return nil
	}
	if err := s.Flush(context.Background()); err != nil {
		return fmt.Errorf(
			"close the store %s: its latest changes are not in the file, and the next start will ask the server for them: %w",
			s.path, err)
	}
	return nil
}

// isClosed reports whether Close has been called.
func (s *Store) isClosed() bool {
	s.commits.mu.Lock()
	closed := s.commits.closed
	s.commits.mu.Unlock()
	if closed {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handle == nil
}

// Close commits what is pending, ends the background work of the collection and gives its name free. Reads and writes
// fail no sooner than the store is closed. An error is of the commit: what the file lacks then the server sends again.
// If the disk does not finish in ten seconds it wraps ErrStillWriting: then the rest goes on, and nobody can open the
// collection until it has ended.
func (c *Collection) Close() error {
	if c.ending.Swap(true) {
		return nil
	}
	var lost error
	done := make(chan struct{})
	go func() {
		defer close(done)
		lost = c.end()
	}()
	if err := c.store.awaitDisk(done); err != nil {
		close(c.claimed.stuck)
		return fmt.Errorf("close %s: %w", c.id, err)
	}
	return lost
}

// end is Close, however long the disk takes.
func (c *Collection) end() error {
	c.indexing.failed(ErrClosed, true) // before what waits for index functions
	c.builds.stop()
	c.places.close()
	err := c.flushAtClose()
	c.store.delist(c)
	c.released.Store(true)
	c.store.open.release(c.name)
	return err
}

// flushAtClose leaves nothing pending: the next who opens the collection goes on from what is in the file.
func (c *Collection) flushAtClose() error {
	c.front.Lock()
	c.closed = true
	c.front.Unlock()
	if _, unsaved := c.overlay.Current(); !unsaved && !c.places.dirty() {
		return nil
	}
	err := c.store.Flush(context.Background())
	c.store.dropPending(c)
	if err != nil {
		return fmt.Errorf(
			"close %s: its latest changes are not in the file, and the next start will ask the server for them: %w", c.id, err)
	}
	return nil
}
