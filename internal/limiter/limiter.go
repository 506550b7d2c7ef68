package limiter

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxConnects and maxLists are how many connect and list at a time. A list holds up to two pages of 16 MiB, and a
	// connection costs the server about ten small requests.
	maxConnects = 8
	maxLists    = 2
	// patience is how long one that tries while the link is down has before another is let through.
	patience = 10 * time.Second
)

// Limiter is the way to one server. Its methods are safe for concurrent use, and for nil.
type Limiter struct {
	// down mirrors failures > 0, and heard counts, for Heard, which is called with every event.
	down  atomic.Bool
	heard atomic.Int64

	mu sync.Mutex
	// failures in a row, of the link and not of each that tried; guarded by mu.
	failures int
	// failed is when the last of them was, err what it was, and next when the next attempt may begin; guarded by mu.
	failed, next time.Time
	err          error
	// recovered is closed when the link is up again; guarded by mu.
	recovered chan struct{}
	connects  places // guarded by mu
	lists     places // guarded by mu
	// timer grants the next attempt while the link is down; guarded by mu.
	timer *time.Timer
}

// places are how many may do something at a time, and who waits for that, the first to ask first.
type places struct {
	taken int
	queue []*waiter
}

// waiter is who waits.
type waiter struct {
	granted chan struct{}
	told    chan error // why the link is down, for who would else not know what he waits for
}

// New returns a link that is up.
func New() *Limiter { return &Limiter{recovered: make(chan struct{})} }

// Slot is a place that Connect or List gave. It is given back by Done.
type Slot struct {
	l     *Limiter
	of    func(*Limiter) *places
	begun time.Time
	heard int64 // Limiter.heard then
	once  sync.Once
}

// Connect waits for a slot to connect; an error is that of ctx. Meanwhile down is called with what others met, each
// time that the link is found to be down.
func (l *Limiter) Connect(ctx context.Context, down func(error)) (*Slot, error) {
	return l.wait(ctx, down, func(l *Limiter) *places { return &l.connects })
}

// List waits for a slot to list, and is else like Connect.
func (l *Limiter) List(ctx context.Context, down func(error)) (*Slot, error) {
	return l.wait(ctx, down, func(l *Limiter) *places { return &l.lists })
}

func (l *Limiter) wait(ctx context.Context, down func(error), of func(*Limiter) *places) (*Slot, error) {
	if l == nil {
		return nil, nil
	}
	w := l.enter(of)
	for waits := true; waits; {
		select {
		case <-w.granted:
			return &Slot{l: l, of: of, begun: time.Now(), heard: l.heard.Load()}, nil
		case err := <-w.told:
			down(err)
		case <-ctx.Done():
			waits = false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := of(l)
	if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	} else {
		p.taken-- // it was granted in the meantime
	}
	l.grantLocked()
	return nil, context.Cause(ctx)
}

// enter takes a place in the queue, if need be.
func (l *Limiter) enter(of func(*Limiter) *places) *waiter {
	w := &waiter{granted: make(chan struct{}), told: make(chan error, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := of(l)
	p.queue = append(p.queue, w)
	l.grantLocked()
	if l.failures > 0 && slices.Contains(p.queue, w) {
		w.told <- l.err
	}
	return w
}

// Done gives the slot back. It may be called again, and for nil.
func (t *Slot) Done() {
	if t == nil {
		return
	}
	t.once.Do(func() {
		t.l.mu.Lock()
		defer t.l.mu.Unlock()
		t.of(t.l).taken--
		t.l.grantLocked()
	})
}

// Failed says that what was tried in this slot of Connect came to nothing: there was no answer. Of those that were
// under way together one counts; none does if the server was heard since the slot began, by whomever: then it is not
// the link that fails.
func (t *Slot) Failed(err error) {
	if t == nil {
		return
	}
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.heard == l.heard.Load() && (l.failures == 0 || !t.begun.Before(l.failed)) {
		l.failLocked(err)
	}
}

// Lost says that a connection that had been made broke. Whatever else breaks then is the same failure.
func (l *Limiter) Lost(err error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures == 0 {
		l.failLocked(err)
	}
}

// Heard says that the server did: the link is up.
func (l *Limiter) Heard() {
	if l == nil {
		return
	}
	l.heard.Add(1)
	if !l.down.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures == 0 {
		return
	}
	l.failures = 0
	l.down.Store(false)
	close(l.recovered)
	l.recovered = make(chan struct{})
	l.grantLocked()
}

// Down tells how many attempts have failed in a row, none if the link is up: then the next is made at the time that is
// returned, and not before, unless the channel is closed, since the server was heard.
func (l *Limiter) Down() (failures int, next time.Time, recovered <-chan struct{}) {
	if l == nil {
		return 0, time.Time{}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures, l.next, l.recovered
}

func (l *Limiter) failLocked(err error) {
	ceiling := Ceiling(l.failures)
	l.failures++
	l.down.Store(true)
	l.failed = time.Now()
	l.next = l.failed.Add(rand.N(ceiling + 1))
	l.err = err
	l.grantLocked()
	for _, w := range slices.Concat(l.connects.queue, l.lists.queue) {
		select {
		case w.told <- err:
		default: // he has not heard the last one yet
		}
	}
}

// grantLocked gives out the slots that there are.
func (l *Limiter) grantLocked() {
	for len(l.lists.queue) > 0 && l.lists.taken < maxLists {
		l.lists.grant()
	}
	for len(l.connects.queue) > 0 && l.connects.taken < maxConnects && l.dueLocked() {
		l.connects.grant()
		if l.failures > 0 {
			l.next = time.Now().Add(patience)
		}
	}
	l.planLocked()
}

// dueLocked reports whether an attempt may begin now, as far as the link is concerned.
func (l *Limiter) dueLocked() bool { return l.failures == 0 || !time.Now().Before(l.next) }

// planLocked sets the timer, if somebody waits for the time of the next attempt.
func (l *Limiter) planLocked() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.failures > 0 && len(l.connects.queue) > 0 && l.connects.taken < maxConnects {
		l.timer = time.AfterFunc(time.Until(l.next), l.tick)
	}
}

func (l *Limiter) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grantLocked()
}

// grant gives a place to the first in the queue.
func (p *places) grant() {
	close(p.queue[0].granted)
	p.queue = p.queue[1:]
	p.taken++
}
