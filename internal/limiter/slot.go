package limiter

import (
	"sync"
	"time"
)

// Slot is a granted slot of Connect or List. Done releases it.
type Slot struct {
	l        *Limiter
	of       func(*Limiter) *slots
	begun    time.Time
	received int64 // the number of calls of Limiter.Received when the slot was granted
	// failed is true if the client's last attempt failed.
	failed bool

	done bool // true after Done; guarded by l.mu
	// dials is true after a call of Connecting; guarded by l.mu. alone is the timer that watchAlone has started.
	dials bool
	alone *time.Timer
	// silent is the number of the slot's requests that wait for an overdue response. While it is not 0, the slot does
	// not count. Guarded by l.mu.
	silent int
}

// watchAlone handles a client that connects alone but does not call Connecting within 250 ms: it lets the other clients
// connect. That client may be waiting for its rate limiter, or it does not report its requests.
func (t *Slot) watchAlone() {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	if t.of(t.l) != &t.l.connects || t.l.maxConnectsLocked() > 1 {
		return
	}
	t.alone = time.AfterFunc(silence, func() {
		t.l.mu.Lock()
		defer t.l.mu.Unlock()
		if !t.done && !t.dials && !t.l.connected {
			t.l.connected = true
			t.l.grantLocked()
		}
	})
}

// Done releases the slot. Further calls, and calls on a nil Slot, do nothing.
func (t *Slot) Done() {
	if t == nil {
		return
	}
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	if t.done {
		return
	}
	t.done = true
	if t.alone != nil {
		t.alone.Stop()
	}
	t.l.connected = t.l.failures == 0
	if t.silent > 0 {
		t.of(t.l).silent--
	} else {
		t.of(t.l).taken--
	}
	t.l.grantLocked()
}

// Connecting reports that a request of the slot's owner is getting a network connection. A call of Connected follows.
func (t *Slot) Connecting() {
	if t == nil {
		return
	}
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.dials = true
}

// Connected reports that a request of the slot's owner has a network connection. If it is the first one, clients that
// wait to share it may now connect.
func (t *Slot) Connected() {
	if t == nil {
		return
	}
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	if !t.l.connected {
		t.l.connected = true
		t.l.grantLocked()
	}
}

// await is a request of the slot's owner that waits for the first byte of its response.
type await struct {
	timer *time.Timer
	ended bool // true once the response has begun or the request has ended; guarded by l.mu
	due   bool // the response is overdue, so the request is counted in Slot.silent; guarded by l.mu
}

// Await is called when a request of the slot's owner begins. If no byte of the response arrives within 250 ms, the slot
// does not count until one does: a resource that does not answer must not occupy a slot that another one needs. While
// the owner gets the first network connection (Connecting), the limit is ten seconds. The caller must call answered
// when the first byte has arrived or the request has ended.
func (t *Slot) Await() (answered func()) {
	if t == nil {
		return func() {}
	}
	a := &await{}
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	wait := silence
	if t.of(t.l).silent > 0 {
		wait /= 2
	}
	a.timer = time.AfterFunc(wait, func() { t.fallSilent(a) })
	return sync.OnceFunc(func() {
		t.l.mu.Lock()
		defer t.l.mu.Unlock()
		a.timer.Stop()
		a.ended = true
		t.answeredLocked(a)
	})
}

// fallSilent is called when the response of a request is overdue. It stops counting the request's slot.
func (t *Slot) fallSilent(a *await) {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	p := t.of(t.l)
	switch {
	case a.ended || t.done:
		return
	case t.silent == 0 && p.silent == maxSilent,
		p == &t.l.connects && !t.l.connected && time.Since(t.begun) < patience:
		a.timer.Reset(silence)
		return
	}
	a.due = true
	if t.silent++; t.silent == 1 {
		p.silent++
		p.taken--
		t.l.grantLocked()
	}
}

// answeredLocked makes the slot count again once none of its requests is overdue. The number of counted slots may then
// exceed the limit for new ones.
func (t *Slot) answeredLocked(a *await) {
	if !a.due {
		return
	}
	a.due = false
	if t.silent--; t.silent == 0 && !t.done {
		t.of(t.l).silent--
		t.of(t.l).taken++
	}
}

// Failed reports that the attempt to connect in this slot had no response. Of concurrent attempts, only one counts.
// None counts if any client has received data since the slot was granted: then the link is not down.
func (t *Slot) Failed(err error) {
	if t == nil {
		return
	}
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.received == l.received.Load() && (l.failures == 0 || !t.begun.Before(l.failed)) {
		_, answer := statusOf(err)
		l.others = answer && (l.failures == 0 || t.failed)
		l.failLocked(err)
	}
}
