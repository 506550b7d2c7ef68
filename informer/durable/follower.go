package durable

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store/consumer"
)

// follower is one durable handler. Its goroutine reads the changelog in order, calls the handler for each change, and
// keeps the cursor:
//
//	works        keys with unacknowledged changes: the call failed, or the work queue's worker has not finished
//	position     every change up to its Seq (or key up to After, in a replay) is acknowledged, or its key is in works
//
// Keys are acknowledged in any order. The file has the position and the keys of works, and the changes of these keys,
// which are read again when they are due.
type follower struct {
	o       Options
	name    string
	removed bool // removed is true once Remove was called; Handlers.mu guards it
	handler Handler
	// queues is true if OnChange only enqueues the key. The method answer then acknowledges the change later.
	queues  bool
	cursor  Cursor
	synced  chan struct{} // synced is closed when all changes up to the informer's sync have been offered
	done    chan struct{} // done is closed when the goroutine has ended
	flushed bool          // flushed is true if all changes before the informer's sync are committed
	flushAt time.Time     // flushAt is the time of the next flush, if the last one has failed
	dueAt   time.Time     // dueAt is a time before which no key in works is due; zero if none will be due

	position consumer.Position
	resets   int
	works    map[string]*work
	// notedAt is when the position was last passed to the store. unnoted is true if the position or works has changed
	// since.
	notedAt time.Time
	unnoted bool

	answered chan struct{} // answered has capacity 1, and a token when answers is not empty

	mu      sync.Mutex        // mu guards the fields below
	epoch   int               // epoch counts the calls of follow; an answer of an older epoch is ignored
	offered map[string]uint64 // offered has the newest change of each key that was enqueued in this epoch
	answers map[string]uint64 // answers has, by key, the newest change that workers have acknowledged
	ctx     context.Context   // ctx is the context of the goroutine; nil before the start
	cancel  context.CancelFunc
	stopped bool
	now     Status
}

// work is a key with unacknowledged changes. Their sequence numbers are at least from and at most the position's Seq;
// the file may have dropped some of them.
type work struct {
	from  uint64
	last  uint64    // last is the newest change that was enqueued, if the handler queues keys
	tries int       // tries counts the failed calls for the oldest change
	due   time.Time // due is the time of the next call; zero while a worker's answer is awaited
}

var _ cache.ResourceEventHandlerRegistration = &follower{}

// HasSynced reports whether the handler has been offered every change that the informer had when it synced. For a
// handler that queues keys it is also true once the maximum number of keys is due.
func (f *follower) HasSynced() bool { return isDone(f.synced) }

func (f *follower) HasSyncedChecker() cache.DoneChecker { return f }

func (f *follower) Name() string { return fmt.Sprintf("durable handler %q", f.name) }

func (f *follower) Done() <-chan struct{} { return f.synced }

// ShutdownChan is closed when the handler has been removed, or the informer has stopped, and the handler's last call
// has returned. The handler's name can then be registered again. See cache.ShutDownEventHandler.
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

// start runs the goroutine until ctx ends or stop is called. The goroutine calls ended when it returns.
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

// stop cancels the goroutine, which then closes done. Without a goroutine, stop closes done and returns true.
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

// beginEpoch makes later acknowledgements of enqueued changes ineffective: a reset may number changes from 1.
func (f *follower) beginEpoch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch++
	f.offered, f.answers = map[string]uint64{}, map[string]uint64{}
}

// offeredOf returns the number of the newest change of a key that was enqueued, 0 if the key is not due, and the epoch.
func (f *follower) offeredOf(key string) (seq uint64, epoch int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.offered[key], f.epoch
}

// answer acknowledges the changes of a key up to the number seq. It does nothing once the run has ended: a canceled
// worker may report success without having done the work. Any goroutine may call it.
func (f *follower) answer(key string, seq uint64, epoch int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil || epoch != f.epoch {
		return
	}
	f.answers[key] = max(f.answers[key], seq)
	select {
	case f.answered <- struct{}{}:
	default:
	}
}

// takeAnswers applies the workers' acknowledgements: keys whose newest change is acknowledged leave works.
func (f *follower) takeAnswers() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, seq := range f.answers {
		if w := f.works[key]; w != nil {
			w.from, f.unnoted = seq+1, true
			if seq >= w.last {
				delete(f.works, key)
				delete(f.offered, key)
			}
		}
	}
	clear(f.answers)
}

func (f *follower) note(change func(s *Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.now)
}

func statusAt(position consumer.Position) Status {
	return Status{Seq: position.Seq, Failing: len(position.Failing), Replaying: position.Replaying, Reset: position.Why}
}

func (f *follower) status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.now
	s.Name = f.name
	return s
}

// Cursor reads the changelog of a collection for one handler and keeps the handler's position. *store.Cursor implements
// it and documents the methods.
type Cursor interface {
	Position() (position consumer.Position, resets int, err error)
	Acknowledge(position consumer.Position, resets int) error
	Read(ctx context.Context, at consumer.Position) (p consumer.Page, next consumer.Position, err error)
	Next(ctx context.Context, key string, from, upTo uint64) (consumer.Page, error)
	Changed() <-chan struct{}
	Close()
}
