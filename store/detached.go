package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A store whose file another process has (Options.MemoryWhileLocked) tries to get it after this, by half more or less, so that of several that wait
// none is always first.
const attachEvery = time.Second

// A file that is free and can not be used, as when the disk is full, is tried again after attachEvery, doubled up to this.
const attachEveryMax = time.Minute

// holderEvery is how often it is found out who holds the file: that takes a look at every process.
const holderEvery = 30 * time.Second

// detachment is how a store gets its file after Open. The zero value is that of a store that has it.
type detachment struct {
	mu       sync.Mutex
	why      error         // why it has not got it; nil if it has; guarded by mu
	free     time.Time     // since when the file has been found free each time; guarded by mu
	attached chan struct{} // closed when it has; nil if it had it from the start
}

func (d *detachment) set(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why = why
}

// patient reports whether the file, which is free, can wait.
func (d *detachment) patient() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free.IsZero() {
		d.free = time.Now()
	}
	return time.Since(d.free) < attachPatience
}

// taken notes that another has the file: what it writes may be newer than what is in memory, so patience begins anew once it is free.
func (d *detachment) taken() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = time.Time{}
}

func (s *Store) isAttached() bool { return s.Detached() == nil }

// Detached returns why the store is in memory instead of its file, an error that wraps ErrDetached: ErrLocked with the process that holds the file, or what keeps the store
// from using it now that it is free. It is nil for a store that has its file, and lasts, with Options.MemoryWhileLocked, until Attached.
func (s *Store) Detached() error {
	s.detached.mu.Lock()
	defer s.detached.mu.Unlock()
	return s.detached.why
}

// Attached returns a channel that is closed once the store has its file: from the start, but with Options.MemoryWhileLocked.
func (s *Store) Attached() <-chan struct{} {
	if s.detached.attached == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return s.detached.attached
}

// openInMemory is what Open does if the file is locked and the program can not wait.
func (s *Store) openInMemory(ctx context.Context, why error) error {
	h, err := newVolatile(s.o)
	if err != nil {
		return errors.Join(why, err)
	}
	if err := s.keys.unlock(ctx, h, true); err != nil {
		return errors.Join(err, h.close())
	}
	s.detached.why, s.detached.attached = detachedBy(why), make(chan struct{}) // nobody has s yet
	if err := s.start(h, root{format: formatVersion, clean: true}, false); err != nil {
		return errors.Join(why, err)
	}
	s.logger().Info("The store runs in memory until it can have its file; nothing of it outlives this process before that", "why", why.Error())
	return nil
}

func detachedBy(why error) error { return fmt.Errorf("%w: %w", ErrDetached, why) }

// newVolatile makes an empty store that is gone when it is closed.
func newVolatile(o Options) (*handle, error) {
	h, err := openVolatile(o, mapSize(0))
	if errors.Is(err, syscall.ENOMEM) {
		h, err = openVolatile(o, 0) // as openBolt does with a file that has a name
	}
	if err == nil {
		err = h.update(func(tx *bolt.Tx) error { return writeRoot(tx, time.Now()) }, (*bolt.Tx).Commit)
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make a store in memory: %w", err)
	}
	return h, nil
}

func openVolatile(o Options, mapped int) (*handle, error) {
	f, err := volatileFile()
	if err != nil {
		return nil, err
	}
	making := opening{path: f.Name(), file: f, maxSize: o.MaxSize, pageSize: o.newPageSize(), volatile: true}
	return making.openBolt(mapped)
}

// awaitFile tries to get the file until it has, or the store is closed.
func (s *Store) awaitFile(ctx context.Context) {
	lookedAt := time.Now() // for who holds it
	told := ""
	for every := attachEvery; pauseFor(ctx, jittered(every)); {
		if s.isLocked() {
			every = attachEvery
			s.detached.taken()
			if time.Since(lookedAt) >= holderEvery {
				lookedAt = time.Now()
				s.detached.set(detachedBy(locked(s.path)))
			}
			continue
		}
		err := s.attach(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case errors.Is(err, ErrLocked):
			every = attachEvery
			s.detached.taken()
		case errors.Is(err, errNotYet):
			every = attachEvery
		default:
			every = min(2*every, attachEveryMax)
			if told != err.Error() {
				told = err.Error()
				s.logger().Error(err, "The store stays in memory: its file is free and can not be used; trying again")
			}
		}
		s.detached.set(detachedBy(err))
	}
}

// isLocked reports whether another has the file; one that can not be looked at it leaves to who opens it.
func (s *Store) isLocked() bool {
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	free, err := tryLock(f, true)
	_ = f.Close()
	return err == nil && !free
}

func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// pauseFor waits for d; it is false if ctx has ended.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
