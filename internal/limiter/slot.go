package limiter

import (
	"sync"
	"time"
)

// Slot is a slot of Connect or List. Done gives it back.
type Slot struct {
	l     *Limiter
	of    func(*Limiter) *places
	begun time.Time
	heard int64 // value of Limiter.heard when the slot was granted
	// failed is true if the client failed the last time.
	failed bool

	done bool // guarded by l.mu: the slot was given back
	// dials is true once Connecting was called; guarded by l.mu. alone ends the wait of other clients if it is not.
	dials bool
	alone *time.Timer
	// silent counts the slot's requests whose answer is due; while there are any, the slot does not count. Guarded by
	// l.mu.
	silent int
}

// watchAlone lets other clients connect if this one, which may have to connect alone, does not call Connecting within
// 250 ms: it waits for something else, such as its rate limiter, or does not report its requests.
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

// Done gives the slot back. Further calls, and calls for a nil Slot, do nothing.
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

// Connecting reports that a request of the slot's owner looks for a network connection. Connected follows.
func (t *Slot) Connecting() {
	if t == nil {
		return
	}
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.dials = true
}

// Connected reports that a request of the slot's owner has got a network connection. If the link had none, others have
// waited to share it; but for ten seconds at most.
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

// await is a request that waits for the first byte of its answer.
type await struct {
	timer *time.Timer
	ended bool // guarded by l.mu
	due   bool // guarded by l.mu: it is one of Slot.silent
}

// Await is called when a request of the slot's owner begins. If nothing of the answer has come within 250 ms, the slot
// does not count until it has: a resource that does not answer holds no slot that another one needs. While the owner
// looks for the link's first network connection (Connecting), that takes ten seconds. The caller must call answered
// when the first byte has come, or the request has ended.
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

// fallSilent is called when a request has waited for long enough.
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

// answeredLocked has the slot count again once none of its requests is due. More slots may be taken then than new ones
// are granted for.
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

// Failed reports that the attempt to connect in this slot had no answer. Of attempts at the same time only one counts.
// None counts if any client has heard from the server since the slot was granted: then the link is not down.
func (t *Slot) Failed(err error) {
	if t == nil {
		return
	}
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.heard == l.heard.Load() && (l.failures == 0 || !t.begun.Before(l.failed)) {
		_, answer := statusOf(err)
		l.others = answer && (l.failures == 0 || t.failed)
		l.failLocked(err)
	}
}
