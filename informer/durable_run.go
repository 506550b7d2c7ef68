package informer

import (
	"context"
	"errors"
	"fmt"
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
	removed  bool // guarded by durables.mu
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
	// notedAt is when the place was noted last with all of works; unnoted: it has moved since.
	notedAt time.Time
	unnoted bool

	answered chan struct{} // has a token when there is something in answers

	mu      sync.Mutex
	answers map[string]offset  // acknowledged by others: of each key up to there; guarded by mu
	cancel  context.CancelFunc // guarded by mu; nil before the start
	ended   func() error       // fails once the run has ended; guarded by mu; nil before the start
	stopped bool               // guarded by mu
	now     DurableStatus      // guarded by mu
}

// offset is the number of a change, and the epoch in which it was given: how often the handler had been set back. After that the numbers may
// begin anew, so they are never compared with those of another epoch.
type offset struct {
	epoch int
	seq   uint64
}

// HasSynced reports whether the handler has been told, and has answered or is being asked again, everything that the informer had when it synced; of
// one that queues, at least as much as may wait.
func (d *durable) HasSynced() bool { return cache.IsDone(d) }

// HasSyncedChecker is done when HasSynced becomes true.
func (d *durable) HasSyncedChecker() cache.DoneChecker { return d }

// Name implements cache.DoneChecker.
func (d *durable) Name() string { return fmt.Sprintf("durable handler %q", d.name) }

// Done implements cache.DoneChecker.
func (d *durable) Done() <-chan struct{} { return d.synced }

// ShutdownChan is closed when the handler has been removed, or the informer stopped, and its last call has returned: its name is free
// then. See cache.ShutDownEventHandler.
func (d *durable) ShutdownChan() <-chan struct{} { return d.done }

// durableHandle is what the methods return that add a durable handler.
type durableHandle interface{ handle() *durable }

func (d *durable) handle() *durable { return d }

func (d *durable) markSynced() {
	if !d.HasSynced() {
		close(d.synced)
	}
}

func (d *durable) start(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped || d.cancel != nil {
		return
	}
	ctx, d.cancel = context.WithCancel(ctx)
	d.ended = ctx.Err
	go func() {
		defer d.informer.durables.ended(d)
		defer close(d.done)
		defer d.feed.Close()
		d.run(ctx)
	}()
}

// stop ends the goroutine, which closes done. It reports whether there is none.
func (d *durable) stop() (ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.stopped:
	case d.cancel == nil:
		d.feed.Close()
		close(d.done)
	default:
		d.cancel()
	}
	d.stopped = true
	return d.cancel == nil
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
func (d *durable) follow(ctx context.Context) (err error) {
	if d.place, d.resets, err = d.feed.Place(); err != nil {
		return err
	}
	d.works, d.stale = map[string]*work{}, false
	defer func() { err = errors.Join(err, d.noteLast()) }()
	d.note(func(s *DurableStatus) { *s = statusAt(d.place) })
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
		if err := d.offer(ctx, key, w, nil); err != nil {
			return err
		}
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
		err := d.call(ctx, fn)
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
	for logAt := d.informer.clock.Now().Add(stallLogged); d.full(c.Key); {
		d.note(func(s *DurableStatus) { s.Stalled = true })
		if d.handler.queues() {
			d.markSynced() // who works begins when all sources have synced, and nothing is done before
		}
		if !logAt.IsZero() && !d.informer.clock.Now().Before(logAt) {
			logAt = time.Time{}
			d.logStalled(ctx)
		}
		if err := d.awaitUntil(ctx, nil, logAt); err != nil {
			return err
		}
	}
	if err := errors.Join(d.attend(ctx), ctx.Err()); err != nil {
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
	if fresh || w.waiting && d.handler.queues() {
		var read *Change
		if fresh {
			read = &c
		}
		if err := d.offer(ctx, c.Key, w, read); err != nil {
			return err
		}
	}
	pass()
	return d.acknowledge()
}

// full reports whether no change of the key is taken in now.
func (d *durable) full(key string) bool {
	if w := d.works[key]; w != nil {
		return len(w.changes) >= maxChanges
	}
	return len(d.works) >= maxWorks
}

// A handler that queues has many works, and each change and each answer changes them. So many of them are noted together, at these distances.
const (
	manyWorks  = 64
	noteWithin = 20 * time.Millisecond
)

// acknowledge notes the place for the next commit, or has it noted a little later.
func (d *durable) acknowledge() error {
	d.unnoted = d.stale && d.handler.queues() && len(d.works) > manyWorks && d.informer.clock.Since(d.notedAt) < noteWithin
	if d.unnoted {
		return nil
	}
	return d.notePlace()
}

// notePlace notes the place for the next commit.
func (d *durable) notePlace() error {
	d.unnoted, d.notedAt = false, d.informer.clock.Now()
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

// noteLast notes the place with the answers that have come since: what was acknowledged before the end is not told again.
func (d *durable) noteLast() error {
	d.takeAnswers()
	if d.stale || d.unnoted {
		return d.notePlace()
	}
	return nil
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

// statusAt is the status of a handler that goes on from a place.
func statusAt(place store.Place) DurableStatus {
	return DurableStatus{Seq: place.Seq, Failing: len(place.Failing), Replaying: place.Replaying, Reset: place.Why}
}

func (d *durable) status() DurableStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.now
	s.Name = d.name
	return s
}
