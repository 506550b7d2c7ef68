package durable

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// follower is one durable handler. Its goroutine reads the changelog in order, offers each change to the handler, and
// keeps the cursor:
//
//	works        keys with changes that were offered and not acknowledged: they failed, or were not answered yet
//	position     every change up to its Seq (or key up to After, in a replay) is acknowledged or in works
//
// A change is acknowledged when it leaves works, in any order of keys. The file has the cursor and the keys of works.
type follower struct {
	o       Options
	name    string
	removed bool // whether Remove was called; guarded by Handlers.mu
	handler offerer
	cursor  Cursor
	synced  chan struct{} // closed when all changes up to the informer's sync have been offered
	done    chan struct{} // closed when the goroutine has ended
	flushed bool          // whether all changes before the informer's sync are committed
	flushAt time.Time     // when to try that again
	dueAt   time.Time     // not later than when the first of works must be offered again; zero if none

	position store.Position
	resets   int
	works    map[string]*work
	stale    bool // whether works has changed since position.Failing was made from it
	// notedAt is when the cursor was last passed to the store; unnoted is true if it has moved since.
	notedAt time.Time
	unnoted bool

	answered chan struct{} // has a token when answers is not empty

	mu      sync.Mutex
	answers map[string]offset  // by key, up to where workers have acknowledged; guarded by mu
	ctx     context.Context    // context of the goroutine; guarded by mu; nil before the start
	cancel  context.CancelFunc // guarded by mu; nil before the start
	stopped bool               // guarded by mu
	now     Status             // guarded by mu
}

// offset is the number of a change with its epoch, which counts how often the handler has been reset. After a reset the
// numbers may start again, so numbers of different epochs are never compared.
type offset struct {
	epoch int
	seq   uint64
}

var _ cache.ResourceEventHandlerRegistration = &follower{}

// HasSynced reports whether the handler has been offered every change that the informer had when it synced. For a
// handler that queues keys it is also true once the maximum number of keys is due.
func (f *follower) HasSynced() bool { return isDone(f.synced) }

// HasSyncedChecker is done when HasSynced becomes true.
func (f *follower) HasSyncedChecker() cache.DoneChecker { return f }

// Name implements cache.DoneChecker.
func (f *follower) Name() string { return fmt.Sprintf("durable handler %q", f.name) }

// Done implements cache.DoneChecker.
func (f *follower) Done() <-chan struct{} { return f.synced }

// ShutdownChan is closed when the handler has been removed, or the informer stopped, and its last call has returned:
// its name is free then. See cache.ShutDownEventHandler.
func (f *follower) ShutdownChan() <-chan struct{} { return f.done }

func (f *follower) handle() *follower { return f }

func (f *follower) markSynced() {
	if !f.HasSynced() {
		close(f.synced)
	}
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// start runs the goroutine until ctx ends, or stop is called. It calls ended then.
func (f *follower) start(ctx context.Context, ended func(*follower)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || f.cancel != nil {
		return
	}
	ctx, f.cancel = context.WithCancel(ctx)
	f.ctx = ctx
	go func() {
		defer ended(f)
		defer close(f.done)
		defer f.cursor.Close()
		f.run(ctx)
	}()
}

// stop cancels the goroutine, which closes done. It returns true if no goroutine was started: then done is closed
// already.
func (f *follower) stop() (ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.stopped:
	case f.cancel == nil:
		f.cursor.Close()
		close(f.done)
	default:
		f.cancel()
	}
	f.stopped = true
	return f.cancel == nil
}

func (f *follower) note(change func(s *Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.now)
}

// statusAt returns the status of a handler that starts at a cursor.
func statusAt(position store.Position) Status {
	return Status{Seq: position.Seq, Failing: len(position.Failing), Replaying: position.Replaying, Reset: position.Why}
}

func (f *follower) status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.now
	s.Name = f.name
	return s
}
