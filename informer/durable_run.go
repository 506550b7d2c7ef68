package informer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/store"
)

// durable is one durable handler. Its goroutine reads the change feed in order, offers each change to the handler, and notes the place:
//
//	works     keys whose changes were offered and have not been acknowledged: they fail, or were not answered yet
//	place     everything up to its Seq (or After, in a replay) has been acknowledged or is in works
//
// So a change is acknowledged by leaving works, in any order of keys, and what is stored is the place with the keys of works.
type durable struct {
	informer *Informer
	name     string
	order    int
	ready    bool // guarded by durables.mu; it may be told
	handler  offerer
	feed     feed
	synced   chan struct{} // closed when it has been told of everything up to the informer's sync
	done     chan struct{} // closed when the goroutine has ended
	flushed  bool          // what came before the informer's sync is committed
	flushAt  time.Time     // when that is to be tried again
	dueAt    time.Time     // when the first of works is to be offered again, or before; zero: never

	place  store.Place
	resets int
	works  map[string]*work
	stale  bool // place.Failing is not what works are

	answered chan struct{} // has a token when there is something in answers

	mu      sync.Mutex
	answers map[string]uint64  // acknowledged by others: of each key up to a number; guarded by mu
	cancel  context.CancelFunc // guarded by mu; nil before the start
	stopped bool               // guarded by mu
	now     DurableStatus      // guarded by mu
}

// offerer is told of changes, and acknowledges them at once or later.
type offerer interface {
	// offer is called with what is not acknowledged of one key, in order; later by answer, if it returns that it waits. Else it has
	// acknowledged the first change, unless it returns an error.
	offer(ctx context.Context, changes []Change) (waits bool, err error)
	// more says whether it wants to be offered what comes while it waits.
	more() bool
	reset(ctx context.Context, why store.ResetReason) error
	replayed(ctx context.Context) error
}

// maxWorks is how many keys may fail, or not be answered, before a handler stalls: the place in the file names each.
const maxWorks = 1000

// Failing keys are told again after this, doubled up to the maximum.
const (
	durableRetry    = 100 * time.Millisecond
	durableRetryMax = time.Minute
)

// work is what is offered of one key and not acknowledged, in order.
type work struct {
	changes []Change
	waiting bool // for an answer
	tries   int
	due     time.Time // when it is to be offered again, unless waiting
}

// add appends a change. It takes the place of the state before of the same object.
func (w *work) add(c Change) {
	if n := len(w.changes); n > 0 && w.changes[n-1].Type == Upsert && w.changes[n-1].UID == c.UID {
		w.changes = w.changes[:n-1]
	}
	w.changes = append(w.changes, c)
}

// HasSynced reports whether the handler has been told, and has answered or is being asked again, everything that the informer had when it synced.
func (d *durable) HasSynced() bool { return cache.IsDone(d) }

// HasSyncedChecker is done when HasSynced becomes true.
func (d *durable) HasSyncedChecker() cache.DoneChecker { return d }

// Name implements cache.DoneChecker.
func (d *durable) Name() string { return fmt.Sprintf("durable handler %q", d.name) }

// Done implements cache.DoneChecker.
func (d *durable) Done() <-chan struct{} { return d.synced }

func (d *durable) start(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped || d.cancel != nil {
		return
	}
	ctx, d.cancel = context.WithCancel(ctx)
	go func() {
		defer close(d.done)
		defer d.feed.Close()
		d.run(ctx)
	}()
}

// stop ends the goroutine, which closes done.
func (d *durable) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	d.stopped = true
	if d.cancel == nil {
		d.feed.Close()
		close(d.done)
		return
	}
	d.cancel()
}

// run follows the feed until ctx ends or the store is closed.
func (d *durable) run(ctx context.Context) {
	backoff := storeBackoff()
	for {
		err := d.follow(ctx)
		switch {
		case ctx.Err() != nil, isClosed(err), errors.Is(err, store.ErrNoHandler):
			return
		case errors.Is(err, store.ErrReset):
			klog.FromContext(ctx).Info("A durable handler begins anew", "handler", d.name, "type", d.informer.o.ObjectDescription)
			backoff = storeBackoff()
			continue
		}
		d.note(func(s *DurableStatus) { s.Err = err })
		if sleep(ctx, d.informer.clock, backoff.Step()) != nil {
			return
		}
	}
}

// follow goes on from the place that is noted, until the handler is set back or the file can not be read.
func (d *durable) follow(ctx context.Context) error {
	var err error
	if d.place, d.resets, err = d.feed.Place(); err != nil {
		return err
	}
	d.works, d.stale = map[string]*work{}, false
	d.note(func(s *DurableStatus) { *s = DurableStatus{} })
	if err := d.recall(ctx); err != nil {
		return err
	}
	if d.place.Replaying {
		if err := d.replay(ctx); err != nil {
			return err
		}
	}
	for {
		changed := d.feed.Changed()
		p, err := d.feed.Read(ctx, d.place.Seq)
		if err != nil {
			return err
		}
		d.reportUnreadable(ctx, p.Unreadable)
		for _, c := range p.Changes {
			if err := d.take(ctx, c, func() { d.place.Seq = c.Seq }); err != nil {
				return err
			}
		}
		if d.place.Seq < p.End {
			d.place.Seq = p.End
			if err := d.acknowledge(); err != nil {
				return err
			}
		}
		if p.More || d.flush(ctx) {
			continue
		}
		if err := d.awaitUntil(ctx, changed, d.flushAt); err != nil {
			return err
		}
	}
}

// recall offers again what had not been acknowledged.
func (d *durable) recall(ctx context.Context) error {
	if len(d.place.Failing) == 0 {
		return nil
	}
	p, err := d.feed.Failing(ctx, d.place.Failing, d.place.Seq)
	if err != nil {
		return err
	}
	d.stale = true
	for _, c := range p.Changes {
		w := d.works[c.Key]
		if w == nil {
			w = &work{}
			d.works[c.Key] = w
		}
		w.add(c)
	}
	for key, w := range d.works {
		d.offer(ctx, key, w)
	}
	return d.acknowledge()
}

// replay tells of every object that has not changed since the handler began anew; the others come behind its place.
func (d *durable) replay(ctx context.Context) error {
	if !d.place.Told {
		if err := d.insist(ctx, func() error { return d.handler.reset(ctx, d.place.Why) }); err != nil {
			return err
		}
		d.place.Told = true
		if err := d.acknowledge(); err != nil {
			return err
		}
	}
	for more := true; more; {
		p, end, err := d.feed.Objects(ctx, d.place.After, d.place.Seq)
		if err != nil {
			return err
		}
		d.reportUnreadable(ctx, p.Unreadable)
		for _, c := range p.Changes {
			if err := d.take(ctx, c, func() { d.place.After = c.Key }); err != nil {
				return err
			}
		}
		if more = p.More; more {
			d.place.After = end
		}
	}
	if err := d.insist(ctx, func() error { return d.handler.replayed(ctx) }); err != nil {
		return err
	}
	d.place.Replaying, d.place.After = false, ""
	return d.acknowledge()
}

// insist calls fn until it returns nil, and meanwhile offers again what is due.
func (d *durable) insist(ctx context.Context, fn func() error) error {
	for backoff := durableBackoff(); ; {
		err := d.call(fn)
		if err == nil {
			return nil
		}
		d.failed(ctx, "", err)
		at := d.informer.clock.Now().Add(backoff.Step())
		for d.informer.clock.Now().Before(at) {
			if err := d.awaitUntil(ctx, nil, at); err != nil {
				return err
			}
		}
	}
}

func durableBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: durableRetry, Factor: 2, Jitter: 0.1, Steps: 64, Cap: durableRetryMax}
}

// take offers a change, unless one of its key is to be answered first, and moves the place past it.
func (d *durable) take(ctx context.Context, c Change, pass func()) error {
	for d.works[c.Key] == nil && len(d.works) >= maxWorks {
		d.note(func(s *DurableStatus) { s.Stalled = true })
		if err := d.await(ctx, nil); err != nil {
			return err
		}
	}
	if err := d.attend(ctx); err != nil {
		return err
	}
	w := d.works[c.Key]
	fresh := w == nil
	if fresh {
		w = &work{}
		d.works[c.Key] = w
	} else {
		d.stale = true
	}
	w.add(c)
	if fresh || w.waiting && d.handler.more() {
		d.offer(ctx, c.Key, w)
	}
	if err := ctx.Err(); err != nil {
		return err // an answer of one who was told to stop is none
	}
	pass()
	return d.acknowledge()
}

// offer offers what is not acknowledged of a key until one change fails, or has to be waited for.
func (d *durable) offer(ctx context.Context, key string, w *work) {
	for len(w.changes) > 0 {
		waits := false
		err := d.call(func() (err error) {
			waits, err = d.handler.offer(ctx, w.changes)
			return err
		})
		w.waiting = waits && err == nil
		switch {
		case err != nil:
			w.tries++
			w.due = d.informer.clock.Now().Add(retryDelay(w.tries))
			d.dueAt = earlier(d.dueAt, w.due)
			d.stale = true
			d.failed(ctx, key, err)
			return
		case waits:
			d.stale = true
			return
		}
		w.changes, w.tries = w.changes[1:], 0
	}
	d.finished(key)
}

// finished takes a key out of works.
func (d *durable) finished(key string) {
	delete(d.works, key)
	if _, named := d.place.Failing[key]; named {
		d.stale = true
	}
}

// retryDelay is durableRetry, doubled with each try, give or take a tenth.
func retryDelay(tries int) time.Duration {
	delay := durableRetryMax
	if tries < 16 {
		delay = min(delay, durableRetry<<(tries-1))
	}
	return delay + time.Duration((rand.Float64()-0.5)*0.2*float64(delay))
}

// call calls the handler. A panic is an error.
func (d *durable) call(fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			err = &panicError{what: r.Error(), stack: string(debug.Stack())}
		default: // its text may hold what is in an object
			err = &panicError{what: fmt.Sprintf("a %T", r), stack: string(debug.Stack())}
		}
	}()
	return fn()
}

// panicError is a panic of a handler.
type panicError struct{ what, stack string }

func (e *panicError) Error() string { return "it panicked: " + e.what }

// acknowledge notes the place for the next commit.
func (d *durable) acknowledge() error {
	if d.stale {
		d.place.Failing = make(map[string]uint64, len(d.works))
		for key, w := range d.works {
			d.place.Failing[key] = w.changes[0].Seq
		}
		d.stale = false
	}
	err := d.feed.Acknowledge(d.place, d.resets)
	d.note(func(s *DurableStatus) {
		s.Seq, s.Failing, s.Replaying, s.Reset = d.place.Seq, len(d.works), d.place.Replaying, d.place.Why
		s.Stalled = len(d.works) >= maxWorks
		if len(d.works) == 0 {
			s.Err = nil
		}
	})
	return err
}

// answer acknowledges what was offered of a key up to a number. Any goroutine may call it.
func (d *durable) answer(key string, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.answers == nil {
		d.answers = map[string]uint64{}
	}
	d.answers[key] = max(d.answers[key], seq)
	select {
	case d.answered <- struct{}{}:
	default:
	}
}

// attend takes the answers that have come, and offers again what is due. It fails if the handler has been set back.
func (d *durable) attend(ctx context.Context) error {
	d.mu.Lock()
	answers := d.answers
	d.answers = nil
	d.mu.Unlock()
	for key, seq := range answers {
		w := d.works[key]
		if w == nil {
			continue
		}
		for len(w.changes) > 0 && w.changes[0].Seq <= seq {
			w.changes = w.changes[1:]
			d.stale = true
		}
		if len(w.changes) == 0 {
			d.finished(key)
		}
	}
	d.offerDue(ctx)
	if d.stale {
		return d.acknowledge()
	}
	return nil
}

// offerDue offers again what is due.
func (d *durable) offerDue(ctx context.Context) {
	now := d.informer.clock.Now()
	if d.dueAt.IsZero() || d.dueAt.After(now) {
		return
	}
	d.dueAt = time.Time{}
	for key, w := range d.works {
		switch {
		case w.waiting:
		case w.due.After(now):
			d.dueAt = earlier(d.dueAt, w.due)
		default:
			d.offer(ctx, key, w)
		}
	}
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// await waits until something has been committed, or answered, or is due, and attends to it. changed may be nil.
func (d *durable) await(ctx context.Context, changed <-chan struct{}) error {
	return d.awaitUntil(ctx, changed, time.Time{})
}

func (d *durable) awaitUntil(ctx context.Context, changed <-chan struct{}, at time.Time) error {
	at = earlier(at, d.dueAt)
	var due <-chan time.Time
	if !at.IsZero() {
		t := d.informer.clock.NewTimer(at.Sub(d.informer.clock.Now()))
		defer t.Stop()
		due = t.C()
	}
	var synced <-chan struct{}
	if !d.informer.HasSynced() {
		synced = d.informer.synced
	}
	select {
	case <-changed:
	case <-d.answered:
	case <-due:
	case <-synced:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, resets, err := d.feed.Place(); err != nil || resets != d.resets {
		return errors.Join(err, store.ErrReset)
	}
	return d.attend(ctx)
}

// flush is called when everything has been read that is committed. Once the informer has synced it commits what came before, and
// reports that there may be more to read; when that has been read the handler has synced too.
func (d *durable) flush(ctx context.Context) (more bool) {
	switch now := d.informer.clock.Now(); {
	case d.flushed:
		if !d.HasSynced() {
			close(d.synced)
		}
		return false
	case !d.informer.HasSynced(), now.Before(d.flushAt):
		return false
	case d.informer.o.Store.Flush(ctx) != nil: // the store says why, and tries again
		d.flushAt = now.Add(time.Second)
		return false
	}
	d.flushed, d.flushAt = true, time.Time{}
	return true
}

// failed says that the handler has returned an error: of a key, or of OnReset and OnReplayed. A key is logged when it begins to fail.
func (d *durable) failed(ctx context.Context, key string, err error) {
	if ctx.Err() != nil {
		return
	}
	d.note(func(s *DurableStatus) { s.Err = fmt.Errorf("durable handler %q: %w", d.name, err) })
	if w := d.works[key]; w != nil && w.tries > 1 {
		return
	}
	about := []any{"handler", d.name, "key", key, "type", d.informer.o.ObjectDescription}
	if p := (*panicError)(nil); errors.As(err, &p) {
		about = append(about, "stack", p.stack)
	}
	klog.FromContext(ctx).Error(err, "A durable handler has failed, and will be called again", about...)
}

func (d *durable) reportUnreadable(ctx context.Context, keys []string) {
	for _, key := range keys {
		klog.FromContext(ctx).Info("A durable handler is not told of an object that this program can not decode; it will be when the object changes",
			"handler", d.name, "key", key, "type", d.informer.o.ObjectDescription)
	}
}

func (d *durable) note(change func(s *DurableStatus)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.now)
}

func (d *durable) status() DurableStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.now
	s.Name = d.name
	return s
}

// callHandler offers to a DurableHandler, one change at a time.
type callHandler struct{ handler DurableHandler }

func (h *callHandler) offer(ctx context.Context, changes []Change) (waits bool, err error) {
	return false, h.handler.OnChange(ctx, changes[0])
}

func (h *callHandler) more() bool { return false }

func (h *callHandler) reset(ctx context.Context, why store.ResetReason) error {
	return h.handler.OnReset(ctx, why)
}

func (h *callHandler) replayed(ctx context.Context) error { return h.handler.OnReplayed(ctx) }
