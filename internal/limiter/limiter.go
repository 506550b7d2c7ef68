package limiter

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxConnects and maxLists are the maximum numbers of clients that connect and list at a time. A list holds up to two
	// pages of 16 MiB, and a connection costs the server about as much as ten small requests.
	maxConnects = 8
	maxLists    = 2
	// patience is the time after which a hanging attempt to connect no longer keeps the next client from trying while the
	// link is down.
	patience = 10 * time.Second
	// silence is the time without a first response byte after which a request's slot does not count. It is halved while
	// other slots of the kind do not count. maxSilent is the maximum number of slots of a kind that do not count. The
	// limits on connects and lists protect the server from load. A request for which the server only waits, for example
	// for a conversion webhook, causes no load.
	silence   = 250 * time.Millisecond
	maxSilent = 64
)

// Limiter is the state of the link to one server. All methods are safe for concurrent use, and may be called on nil.
type Limiter struct {
	// down is true while failures > 0. received counts the calls of Received. Both are atomic because Received is called
	// for every event.
	down     atomic.Bool
	received atomic.Int64

	mu sync.Mutex
	// failures is the number of consecutive failures of the link, not of each client; mu guards it.
	failures int
	// failed is the time of the last failure, err is its error, and next is the earliest time of the next attempt. mu
	// guards all three.
	failed, next time.Time
	err          error
	// others is true if one client whose last attempt did not fail may try at once. It is set if the newest failure was a
	// 502, 503 or 504, and was the first of the outage or of a client that had failed before: kube-apiserver sends these
	// errors for an aggregated API without a server. mu guards others.
	others bool
	// connected is true while clients have a network connection that they can share. Until it is true, one client at a
	// time connects. mu guards connected.
	connected bool
	// recovered is closed when the link is up after an outage, and then replaced. mu guards recovered.
	recovered chan struct{}
	connects  slots // slots and waiting callers of Connect; mu guards connects
	lists     slots // slots and waiting callers of List; mu guards lists
	// timer fires at the time of the next attempt while the link is down; mu guards timer.
	timer *time.Timer
}

// slots is a limited number of slots, and the queue of waiters. The queue is in the order of the calls, but waiters
// whose last attempt did not fail come first.
type slots struct {
	taken  int // taken is the number of slots in use that count towards the limit
	silent int // silent is the number of slots in use that do not count, because their requests wait for a response
	queue  []*waiter
}

type waiter struct {
	failed  bool
	granted chan struct{}
	failure chan error // failure receives the error of each failure of the link, for the waiter's callback down
}

// New returns a Limiter whose link is up.
func New() *Limiter { return &Limiter{recovered: make(chan struct{})} }

// Connect waits for a slot to connect. It fails only with the cause of ctx. It calls down with the error of each
// failure of the link during the wait. If failed is true, the client's last attempt failed, and the client waits behind
// others.
func (l *Limiter) Connect(ctx context.Context, failed bool, down func(error)) (*Slot, error) {
	return l.wait(ctx, failed, down, func(l *Limiter) *slots { return &l.connects })
}

// List waits for a slot to list. It behaves like Connect.
func (l *Limiter) List(ctx context.Context, failed bool, down func(error)) (*Slot, error) {
	return l.wait(ctx, failed, down, func(l *Limiter) *slots { return &l.lists })
}

func (l *Limiter) wait(
	ctx context.Context, failed bool, down func(error), of func(*Limiter) *slots,
) (*Slot, error) {
	if l == nil {
		return nil, nil
	}
	w := l.enter(failed, of)
	for waits := true; waits; {
		select {
		case <-w.granted:
			t := &Slot{l: l, of: of, begun: time.Now(), received: l.received.Load(), failed: failed}
			t.watchAlone()
			return t, nil
		case err := <-w.failure:
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
		p.taken-- // the slot was granted although ctx has ended, so it is released
	}
	l.grantLocked()
	return nil, context.Cause(ctx)
}

// enter adds the caller to the queue of waiters, and grants free slots.
func (l *Limiter) enter(failed bool, of func(*Limiter) *slots) *waiter {
	w := &waiter{failed: failed, granted: make(chan struct{}), failure: make(chan error, 1)}
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
		w.failure <- l.err
	}
	return w
}

// Lost reports that an established connection broke. While the link is down, Lost counts no further failure.
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

// Ended reports that a watch ended early without an error: its network connection may be lost. While clients connect,
// Ended changes nothing: these clients did not connect alone, and a hanging client must not block the others.
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

// Received reports that the server has sent data, so the link is up and waiting clients may connect.
func (l *Limiter) Received() {
	if l == nil {
		return
	}
	l.received.Add(1)
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

// Down returns the number of consecutive failed attempts; 0 if the link is up. While the link is down, next is the
// earliest time of the next attempt, and recovered is closed when the server sends data.
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
		case w.failure <- err:
		default: // the channel still holds an earlier error, which the waiter will receive
		}
	}
}

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

// maxConnectsLocked returns the number of clients that may connect at a time now. While the link is down, the backoff
// is a further limit (dueLocked).
func (l *Limiter) maxConnectsLocked() int {
	if l.connected || l.failures > 0 {
		return maxConnects
	}
	return 1
}

// dueLocked reports whether the first waiter may connect now: the link is up, or the backoff has passed or does not
// apply to that waiter.
func (l *Limiter) dueLocked() bool {
	return l.failures == 0 || l.others && !l.connects.queue[0].failed || !time.Now().Before(l.next)
}

// planLocked sets the timer for the next attempt, if a client waits for that attempt.
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

func (p *slots) grant() {
	close(p.queue[0].granted)
	p.queue = p.queue[1:]
	p.taken++
}

const (
	// BackoffBase is the maximum wait before the first new attempt to connect. The maximum doubles with each consecutive
	// failure, up to BackoffCap.
	BackoffBase = 800 * time.Millisecond
	// BackoffCap is the highest maximum wait.
	BackoffCap = 30 * time.Second
)

// Ceiling returns the maximum wait after a failure that follows the given number of consecutive failures. The actual
// wait is a random part of the maximum, so that the clients of many processes do not connect at the same time.
func Ceiling(failures int) time.Duration {
	if failures >= 6 { // 0.8 s doubled six times exceeds BackoffCap
		return BackoffCap
	}
	return min(BackoffBase<<failures, BackoffCap)
}

// Unanswered reports whether err means that no API server answered: the connection failed or timed out, or a gateway
// that reached no server returned 502, 503 or 504.
func Unanswered(err error) bool {
	if code, ok := statusOf(err); ok {
		return code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
	}
	var failed net.Error
	return errors.As(err, &failed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Answered reports whether err is an error response of an API server.
func Answered(err error) bool {
	_, ok := statusOf(err)
	return ok && !Unanswered(err)
}

func statusOf(err error) (code int32, ok bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return 0, false
	}
	return s.Status().Code, true
}

// Final reports whether err is an API server's rejection that will not change soon, so a retry is useless.
func Final(err error) bool {
	code, ok := statusOf(err)
	if !ok {
		return false
	}
	switch code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusNotImplemented:
		return true
	}
	return false
}
