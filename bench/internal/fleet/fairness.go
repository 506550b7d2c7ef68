package fleet

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// fairness is the API server's priority and fairness for one account: so many seats, and a queue before them, in order. A request that finds
// the queue full, or has waited too long in it, is refused.
type fairness struct {
	mu      sync.Mutex
	free    int       // guarded by mu
	queue   []*waiter // guarded by mu
	dropped dropped   // guarded by mu
}

// waiter is a request in the queue.
type waiter struct {
	seats int
	ready chan struct{}
}

func newFairness() *fairness {
	return &fairness{free: allSeats, dropped: dropped{retryAfter: 1}}
}

// take waits for the seats. What it returns nil for is to be given back.
func (f *fairness) take(ctx context.Context, seats int) error {
	w, err := f.enter(seats)
	if w == nil {
		return err
	}
	timer := time.NewTimer(queueWait)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-w.ready: // in the meantime
		return nil
	default:
	}
	f.leaveLocked(w)
	if err != nil {
		return err
	}
	return f.refuseLocked()
}

// enter takes the seats at once, or a place in the queue; both nil means at once.
func (f *fairness) enter(seats int) (*waiter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.queue) == 0 && f.free >= seats:
		f.free -= seats
		return nil, nil
	case len(f.queue) >= queueLength:
		return nil, f.refuseLocked()
	}
	w := &waiter{seats: seats, ready: make(chan struct{})}
	f.queue = append(f.queue, w)
	return w, nil
}

// give gives seats back, and hands them on.
func (f *fairness) give(seats int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free += seats
	f.dispatchLocked()
}

// dispatchLocked lets the first of the queue go on, and the next, as long as there are seats for it.
func (f *fairness) dispatchLocked() {
	for len(f.queue) > 0 && f.queue[0].seats <= f.free {
		f.free -= f.queue[0].seats
		close(f.queue[0].ready)
		f.queue = f.queue[1:]
	}
}

func (f *fairness) leaveLocked(w *waiter) {
	for i, other := range f.queue {
		if other == w {
			f.queue = append(f.queue[:i:i], f.queue[i+1:]...)
			break
		}
	}
	f.dispatchLocked()
}

func (f *fairness) refuseLocked() error {
	return apierrors.NewTooManyRequests("too many requests, please try again later", f.dropped.note(time.Now().Unix()))
}

// maxRetryAfter bounds Retry-After.
const maxRetryAfter = 32

// dropped sets Retry-After by how many requests were refused of late, in seconds, as apiserver's dropped_requests_tracker.go does: it doubles while
// three a second are refused, and goes down by one while less than one is.
type dropped struct {
	retryAfter, raised int64
	// counts are of the last maxRetryAfter seconds, at second modulo length.
	counts [2 * maxRetryAfter]int
	second int64
}

// note counts a refused request and returns Retry-After.
func (d *dropped) note(second int64) int {
	if d.second == 0 {
		d.second = second
	}
	for ; d.second < second; d.second++ {
		d.counts[(d.second+1)%int64(len(d.counts))] = 0
		d.adapt(d.second + 1)
	}
	d.counts[second%int64(len(d.counts))]++
	return int(d.retryAfter)
}

// adapt is done once a second.
func (d *dropped) adapt(second int64) {
	n := int64(0)
	for i := int64(1); i <= d.retryAfter; i++ {
		n += int64(d.counts[(second-i+int64(len(d.counts)))%int64(len(d.counts))])
	}
	switch {
	case n >= 3*d.retryAfter && second-d.raised >= d.retryAfter:
		d.retryAfter, d.raised = min(2*d.retryAfter, maxRetryAfter), second
	case n < d.retryAfter && d.retryAfter > 1:
		d.retryAfter--
	}
}
