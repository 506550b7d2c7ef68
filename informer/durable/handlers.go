package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

var (
	// ErrInMemory: the informer keeps its objects in memory only, so no cursor can survive a restart.
	ErrInMemory = errors.New("the objects are in memory only, and a durable handler needs a file")
	errStopped  = errors.New("the informer has stopped already")
)

const (
	// openWait bounds how long Add waits for the store's writer.
	openWait = 30 * time.Second
	// stopWait bounds how long Stop waits for running calls. The collection stays open meanwhile.
	stopWait = 5 * time.Second
)

// Options are the options of New.
type Options struct {
	// Description names the objects in errors and logs.
	Description string
	// Collection has the objects; nil if they are in memory only, for the reason InMemory.
	Collection *store.Collection
	InMemory   string
	// Types is the fingerprint of the Go types. AsSent is true if objects are stored as the server sent them. Changed
	// types then change the decoded objects without a list, so handlers start over.
	Types  string
	AsSent bool
	// Wrap, if not nil, wraps the Collection's cursors: tests use it to count calls and make them fail.
	Wrap func(Cursor) Cursor
	// Synced is closed when the initial list is in the store. Flush commits that list.
	Synced <-chan struct{}
	Flush  func(ctx context.Context) error
	Clock  clock.WithTicker
}

// Handlers are the durable handlers of an informer.
type Handlers struct {
	o Options

	mu      sync.Mutex      // mu guards the fields below
	all     []*follower     // all is in the order of Add; a removed handler stays until its call has returned
	running context.Context // running is the context of Start; nil before
	stopped bool
}

// New returns Handlers. It starts no goroutine.
func New(o Options) *Handlers { return &Handlers{o: o} }

// Add registers a handler under a name, which identifies its cursor in the file. The handler is called while the
// informer runs. Informer.RemoveEventHandler removes the handler, but keeps its cursor.
//
// Add fails with ErrInMemory if the objects are in memory only, with consumer.ErrOpen if a handler of that name is
// registered, and with store.ErrNoSpace if the file is full and the handler is new.
func (s *Handlers) Add(name string, handler Handler) (cache.ResourceEventHandlerRegistration, error) {
	f := &follower{o: s.o, name: name, handler: handler.filled()}
	if err := s.add(f); err != nil {
		return nil, err // a plain nil, not a nil *follower in the interface
	}
	return f, nil
}

func (s *Handlers) add(f *follower) error {
	err := s.open(f)
	if err == nil {
		err = s.admit(f)
	}
	if err != nil {
		return fmt.Errorf("durable handler %q was not added to the informer on %s: %w", f.name, s.o.Description, err)
	}
	return nil
}

func (s *Handlers) open(f *follower) error {
	if s.o.Collection == nil {
		return fmt.Errorf("%w: %s", ErrInMemory, s.o.InMemory)
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	cursor, err := s.o.Collection.OpenCursor(ctx, f.name)
	if err != nil {
		return err
	}
	position, _, err := cursor.Position()
	if err != nil {
		cursor.Close()
		return err
	}
	if f.queues {
		cursor = cursor.KeysOnly()
	}
	if f.cursor = cursor; s.o.Wrap != nil {
		f.cursor = s.o.Wrap(cursor)
	}
	f.now = statusAt(position)
	f.answered, f.synced, f.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	return nil
}

func (s *Handlers) admit(f *follower) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		f.cursor.Close()
		return errStopped
	}
	s.all = append(s.all, f)
	if s.running != nil {
		f.start(s.running, s.ended)
	}
	return nil
}

// Start starts the handlers. They run until ctx ends.
func (s *Handlers) Start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.running = ctx
	for _, f := range s.all {
		f.start(ctx, s.ended)
	}
}

// Stop ends the handlers for good. It waits up to five seconds until their calls have returned; the returned function
// waits for the remaining calls.
func (s *Handlers) Stop(ctx context.Context) (wait func()) {
	s.mu.Lock()
	s.stopped = true
	all := slices.Clone(s.all)
	for _, f := range all {
		f.stop()
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	for _, f := range all {
		select {
		case <-f.done:
		case <-ctx.Done():
		}
	}
	return func() {
		for _, f := range all {
			<-f.done
		}
	}
}

// Remove unregisters a handler of Add or AddKeys. It returns false if handle is of another type. It does not wait for a
// running call.
func (s *Handlers) Remove(handle cache.ResourceEventHandlerRegistration) bool {
	h, ok := handle.(interface{ handle() *follower })
	if !ok {
		return false
	}
	f := h.handle()
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.all, f) && !f.removed {
		f.removed = true
		if f.stop() {
			s.dropLocked(f)
		}
	}
	return true
}

// ended is called at the end of a handler's goroutine. It drops a handler that was removed.
func (s *Handlers) ended(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.removed {
		s.dropLocked(f)
	}
}

func (s *Handlers) dropLocked(f *follower) {
	s.all = slices.DeleteFunc(s.all, func(other *follower) bool { return other == f })
}

// Forget deletes the cursor of a handler and the tombstones that only this handler needs. It fails with
// consumer.ErrOpen while the handler is registered, and with consumer.ErrNone if there is none of that name.
func (s *Handlers) Forget(ctx context.Context, name string) error {
	if s.o.Collection == nil {
		return fmt.Errorf("forget the durable handler %q: %w", name, consumer.ErrNone)
	}
	return s.o.Collection.ForgetCursor(ctx, name)
}

// RetainChanges keeps the changelog for the given time, for readers of the file that keep their own position: see
// store.Collection.RetainChanges. 0 ends it. The setting survives restarts. RetainChanges fails with ErrInMemory if the
// objects are in memory only.
func (s *Handlers) RetainChanges(ctx context.Context, keep time.Duration) error {
	switch {
	case s.o.Collection != nil:
		return s.o.Collection.RetainChanges(ctx, keep)
	case keep != 0:
		return fmt.Errorf("keep the changes of %s: %w: %s", s.o.Description, ErrInMemory, s.o.InMemory)
	}
	return nil
}

// Status is a snapshot of a handler.
type Status struct {
	Name string
	// Seq is a sequence number: every change up to it has been acknowledged, except changes of failing keys.
	Seq uint64
	// Behind is an upper bound of the number of changes after Seq.
	Behind uint64
	// Failing is the number of keys with unacknowledged changes, for which the handler will be called again.
	Failing int
	// Stalled is true if Failing has reached the limit. The handler then gets no other keys.
	Stalled bool
	// Replaying is true while the handler is called for every object, for the reason in Reset.
	Replaying bool
	Reset     consumer.ResetReason
	// Err is the last error of the handler while a key fails, or of reading its changes; nil if there is none.
	Err error
}

// Status returns the registered handlers, in the order of their registration. next is the number of the next change.
func (s *Handlers) Status(next uint64) (all []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.all {
		if f.removed {
			continue
		}
		now := f.status()
		if next > now.Seq {
			now.Behind = next - 1 - now.Seq
		}
		all = append(all, now)
	}
	return all
}

// Handler has the functions that are called for changes, one at a time; a nil function does nothing. Each must return
// when ctx ends, at the end of the run. A call that has not returned nil by then is repeated after a restart.
type Handler struct {
	// OnChange is called for a change, and acknowledges it by returning nil. After an error or a panic it is called
	// again, after a back-off from 0.1 s doubled up to a minute. Other changes of that key wait until then. A later
	// change of the same object replaces an entry.Upsert that is not acknowledged. The object is shared and must not be
	// modified.
	OnChange func(ctx context.Context, c consumer.Change) error
	// OnReset is called before OnChange is called for every object, because the handler is new or may have missed
	// changes, including deletes. A handler that keeps objects must, at OnReplayed, drop the objects that no longer
	// exist. OnReset is called until it returns nil. A restart continues the replay without another OnReset.
	OnReset func(ctx context.Context, why consumer.ResetReason) error
	// OnReplayed is called when OnChange has been called for every object since OnReset. Objects that have changed
	// since then are excepted: their OnChange follows. OnReplayed is called until it returns nil.
	OnReplayed func(ctx context.Context) error
}

func (h Handler) filled() Handler {
	if h.OnChange == nil {
		h.OnChange = func(context.Context, consumer.Change) error { return nil }
	}
	if h.OnReset == nil {
		h.OnReset = func(context.Context, consumer.ResetReason) error { return nil }
	}
	if h.OnReplayed == nil {
		h.OnReplayed = func(context.Context) error { return nil }
	}
	return h
}

// Keys passes the keys of changed objects to a work queue, and makes that queue durable: a key stays due until its work
// is done, and a restart enqueues all due keys again. See Handlers.AddKeys.
type Keys struct {
	cache.ResourceEventHandlerRegistration
	f *follower
}

// AddKeys registers a durable handler that calls enqueue, which must not block, with the key of each change: usually
// the Add of a work queue. Keys of deleted objects are enqueued too; the indexer does not have them. Objects are not
// decoded. A key is due until a worker calls the function returned by Begin with true:
//
//	key, shutdown := queue.Get()
//	end := keys.Begin(key)
//	err := work(key) // and queue.Forget, or queue.AddRateLimited if it failed
//	queue.Done(key)
//	end(err == nil)
//
// Up to 1,000 keys may be due; enqueue is not called for others until some are done. AddKeys fails as Add does.
func (s *Handlers) AddKeys(name string, enqueue func(key cache.ObjectName)) (*Keys, error) {
	f := &follower{o: s.o, name: name, queues: true}
	f.handler = Handler{OnChange: func(_ context.Context, c consumer.Change) error {
		key, err := cache.ParseObjectName(c.Key)
		if err == nil {
			enqueue(key)
		}
		return err
	}}.filled()
	if err := s.add(f); err != nil {
		return nil, err
	}
	return &Keys{f, f}, nil
}

// Begin must be called when work on a key begins, before the object is read. The worker calls the returned function
// when the work ends, with true if it is done. If the object has changed in between, the key stays due and has been
// enqueued again. After the end of the informer's run the function does nothing.
func (k *Keys) Begin(key cache.ObjectName) (end func(done bool)) {
	text := key.String()
	seq, epoch := k.f.offeredOf(text)
	return func(done bool) {
		if done && seq > 0 {
			k.f.answer(text, seq, epoch)
		}
	}
}

// ShutdownChan is closed when no key will be enqueued any more; see cache.ShutDownEventHandler.
func (k *Keys) ShutdownChan() <-chan struct{} { return k.f.done }

func (k *Keys) handle() *follower { return k.f }
