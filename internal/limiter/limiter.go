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
	// maxConnects and maxLists bound how many clients connect and list at a time. A list holds up to two pages of 16 MiB,
	// and a connection costs the server about ten small requests.
	maxConnects = 8
	maxLists    = 2
	// patience is how long an attempt may take while the link is down before the next client may try.
	patience = 10 * time.Second
	// silence is how long a request may be without a first byte of its answer until its slot stops counting; half as long
	// while other slots of the kind do not count. maxSilent is how many slots of a kind do not count at a time. The bounds
	// on connects and lists are there for the server's load, and a server that waits for another one, such as a conversion
	// webhook, has none.
	silence   = 250 * time.Millisecond
	maxSilent = 64
)

// Limiter is the state of the link to one server. Its methods are safe for concurrent use, and for a nil Limiter.
type Limiter struct {
	// down mirrors failures > 0, and heard counts, for Heard, which is called with every event.
	down  atomic.Bool
	heard atomic.Int64

	mu sync.Mutex
	// failures counts the failures of the link in a row, not those of each client; guarded by mu.
	failures int
	// failed is when the last failure was, err its error, and next when the next attempt may begin; guarded by mu.
	failed, next time.Time
	err          error
	// others is true if one client that did not fail the last time may try at once: the newest failure was a 502, 503 or
	// 504 to a client that failed before, as kube-apiserver answers for an aggregated API without a server. Guarded by mu.
	others bool
	// connected is true once a client has got a network connection, until one is lost. Before that one client at a time
	// connects: the others will share its connection, if they can. Guarded by mu.
	connected bool
	// recovered is closed when the link is up again; guarded by mu.
	recovered chan struct{}
	connects  places // guarded by mu
	lists     places // guarded by mu
	// timer fires when the next attempt may begin while the link is down; guarded by mu.
	timer *time.Timer
}

// places is a bounded number of slots, with the queue of those who wait for one, in the order of their calls: first
// those that did not fail the last time.
type places struct {
	taken  int // slots that count
	silent int // slots that do not count, since they wait for an answer
	queue  []*waiter
}

// waiter is a call of Connect or List that waits for a slot.
type waiter struct {
	failed  bool // the client failed the last time
	granted chan struct{}
	told    chan error // receives the error when the link goes down, for the down callback
}

// New returns a Limiter whose link is up.
func New() *Limiter { return &Limiter{recovered: make(chan struct{})} }

// Connect waits for a slot to connect; an error is that of ctx. While it waits, it calls down with the error of another
// client each time that the link fails. A client that failed the last time waits behind those that did not.
func (l *Limiter) Connect(ctx context.Context, failed bool, down func(error)) (*Slot, error) {
	return l.wait(ctx, failed, down, func(l *Limiter) *places { return &l.connects })
}

// List waits for a slot to list; otherwise it is like Connect.
func (l *Limiter) List(ctx context.Context, failed bool, down func(error)) (*Slot, error) {
	return l.wait(ctx, failed, down, func(l *Limiter) *places { return &l.lists })
}

func (l *Limiter) wait(
	ctx context.Context, failed bool, down func(error), of func(*Limiter) *places,
) (*Slot, error) {
	if l == nil {
		return nil, nil
	}
	w := l.enter(failed, of)
	for waits := true; waits; {
		select {
		case <-w.granted:
			t := &Slot{l: l, of: of, begun: time.Now(), heard: l.heard.Load(), failed: failed}
			t.watchAlone()
			return t, nil
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
		p.taken-- // the slot was granted meanwhile
	}
	l.grantLocked()
	return nil, context.Cause(ctx)
}

// enter adds the caller to the queue, if it has to wait.
func (l *Limiter) enter(failed bool, of func(*Limiter) *places) *waiter {
	w := &waiter{failed: failed, granted: make(chan struct{}), told: make(chan error, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := of(l)
	at := len(p.queue)
	if first := slices.IndexFunc(p.queue, func(w *waiter) bool { return w.failed }); !failed && first >= 0 {
		at = first
	}
	p.queue = slices.Insert(p.queue, at, w)
	l.grantLocked()
	if l.failures > 0 && slices.Contains(p.queue, w) {
		w.told <- l.err
	}
	return w
}

// Lost reports that an established connection broke. Several that break while the link is down count as one failure.
func (l *Limiter) Lost(err error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures == 0 {
		l.others = false
		l.failLocked(err)
	}
}

// Ended reports that a watch ended before its time, without an error: its network connection may be gone. While clients
// connect, it changes nothing: they did not connect alone, and one that hangs must hold up no other.
func (l *Limiter) Ended() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.connects.taken == 0 {
		l.connected = false
	}
}

// Heard reports that the server has sent something: the link is up.
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
	l.connected = true
	l.down.Store(false)
	close(l.recovered)
	l.recovered = make(chan struct{})
	l.grantLocked()
}

// Down returns how many attempts have failed in a row; 0 if the link is up. If it is down, next is when the next
// attempt may begin, and recovered is closed when the server is heard before that.
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
	l.connected = false
	l.down.Store(true)
	l.failed = time.Now()
	l.next = l.failed.Add(rand.N(ceiling + 1))
	l.err = err
	l.grantLocked()
	for _, w := range slices.Concat(l.connects.queue, l.lists.queue) {
		select {
		case w.told <- err:
		default: // the waiter has not received the last error yet
		}
	}
}

// grantLocked grants the free slots to those who wait.
func (l *Limiter) grantLocked() {
	for len(l.lists.queue) > 0 && l.lists.taken < maxLists {
		l.lists.grant()
	}
	for len(l.connects.queue) > 0 && l.connects.taken < l.maxConnectsLocked() && l.dueLocked() {
		if !l.connects.queue[0].failed {
			l.others = false
		}
		l.connects.grant()
		if l.failures > 0 {
			l.next = time.Now().Add(patience)
		}
	}
	l.planLocked()
}

// maxConnectsLocked returns how many clients may connect at a time now. While the link is down, dueLocked bounds them.
func (l *Limiter) maxConnectsLocked() int {
	if l.connected || l.failures > 0 {
		return maxConnects
	}
	return 1
}

// dueLocked reports whether the first client in the queue may try to connect now, as far as the link is concerned.
func (l *Limiter) dueLocked() bool {
	return l.failures == 0 || l.others && !l.connects.queue[0].failed || !time.Now().Before(l.next)
}

// planLocked sets the timer to the next attempt, if a client waits for it.
func (l *Limiter) planLocked() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.failures > 0 && len(l.connects.queue) > 0 && l.connects.taken < l.maxConnectsLocked() {
		l.timer = time.AfterFunc(time.Until(l.next), l.tick)
	}
}

func (l *Limiter) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grantLocked()
}

// grant gives a slot to the first waiter in the queue.
func (p *places) grant() {
	close(p.queue[0].granted)
	p.queue = p.queue[1:]
	p.taken++
}
