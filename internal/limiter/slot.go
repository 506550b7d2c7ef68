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

	done bool // done is true after Done; l.mu guards done
	// dials is true after a call of Connecting; l.mu guards dials. alone is the timer of watchAlone.
	dials bool
	alone *time.Timer
	// silent is the number of the slot's requests whose response is overdue. While silent is not 0, the slot does not
	// count. l.mu guards silent.
	silent int
}

// watchAlone lets the other clients connect if a client that connects alone does not call Connecting within 250 ms.
// That client may be waiting for its rate limiter, or may not report its requests.
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

// Connecting reports that a request of the slot's owner waits for a network connection. A call of Connected follows.
func (t *Slot) Connecting() {
	if t == nil {
		return
	}
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.dials = true
}

// Connected reports that a request of the slot's owner has a network connection. The first call lets clients connect
// that wait to share the connection.
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

type await struct {
	timer *time.Timer
	ended bool // ended is true once the response has begun or the request has ended; l.mu guards ended
	due   bool // due is true if the response is overdue, so Slot.silent includes the request; l.mu guards due
}

// Await is called when a request of the slot's owner begins. The slot does not count from 250 ms after that until a
// byte of the response has arrived: a resource that does not answer must not occupy a slot that another resource needs.
// While the owner waits for the first network connection (Connecting), the limit is ten seconds. The caller must call
// answered when the first byte has arrived or the request has ended.
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

// fallSilent stops counting a slot when the response of its request is overdue.
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

// answeredLocked makes the slot count when none of its requests is overdue. The number of counted slots may then exceed
// the limit for new slots.
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

// Failed reports that the attempt to connect in this slot had no response. Concurrent attempts count as one failure. No
// failure counts if any client has received data since the slot was granted: then the link is not down.
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
