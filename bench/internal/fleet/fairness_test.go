package fleet

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// fairness is the API server's priority and fairness for one account: a number of seats, and a queue in order of
// arrival. A request is refused if the queue is full, or if the request has waited too long.
type fairness struct {
	seats *semaphore.Weighted

	mu      sync.Mutex // mu guards the fields below
	queued  int
	dropped dropped
}

func newFairness() *fairness {
	return &fairness{seats: semaphore.NewWeighted(allSeats), dropped: dropped{retryAfter: 1}}
}

// take waits for the seats. Unless take returns an error, the caller must release them.
func (f *fairness) take(ctx context.Context, seats int64) error {
	if f.seats.TryAcquire(seats) {
		return nil
	}
	if !f.queue(1) {
		return f.refuse()
	}
	defer f.queue(-1)
	inTime, cancel := context.WithTimeout(ctx, queueWait)
	defer cancel()
	switch err := f.seats.Acquire(inTime, seats); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return f.refuse()
}

// queue adds by to the length of the queue. It returns false, and changes nothing, if the queue would be too long.
func (f *fairness) queue(by int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queued+by > queueLength {
		return false
	}
	f.queued += by
	return true
}

func (f *fairness) refuse() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return apierrors.NewTooManyRequests("too many requests, please try again later", f.dropped.note(time.Now().Unix()))
}

// maxRetryAfter is the maximum Retry-After, in seconds.
const maxRetryAfter = 32

// dropped computes Retry-After from the number of recently refused requests, like apiserver's
// dropped_requests_tracker.go. Retry-After doubles while at least three requests a second are refused, and falls by a
// second while less than one is refused.
type dropped struct {
	retryAfter, raised int64
	// counts has the number of refused requests in each recent second, indexed by the second modulo the length.
	counts [2 * maxRetryAfter]int64
	second int64
}

func (d *dropped) note(second int64) int {
	if d.second == 0 {
		d.second = second
	}
	for ; d.second < second; d.second++ {
		*d.of(d.second + 1) = 0
		d.adapt(d.second + 1)
	}
	*d.of(second)++
	return int(d.retryAfter)
}

func (d *dropped) of(second int64) *int64 { return &d.counts[second%int64(len(d.counts))] }

func (d *dropped) adapt(second int64) {
	n := int64(0)
	for i := range d.retryAfter {
		n += *d.of(second - 1 - i)
	}
	switch {
	case n >= 3*d.retryAfter && second-d.raised >= d.retryAfter:
		d.retryAfter, d.raised = min(2*d.retryAfter, maxRetryAfter), second
	case n < d.retryAfter && d.retryAfter > 1:
		d.retryAfter--
	}
}
