package reflector

import (
	"context"
	"sync"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
)

// slowSinkAfter is how long a call of the sink may take before the session releases its slot to list. A full sink may
// stay full for long, and other reflectors need the slot.
const slowSinkAfter = 10 * time.Second

// slot is a session's slot of Options.Limiter. The slot to connect is released when the server has accepted the watch
// or answered the first page. The slot to list is released at the end of the list, while a page waits for its retry,
// and while the sink has not accepted a page for slowSinkAfter. Both are released while a call is overdue.
type slot struct {
	// wait is the method Connect or List of Options.Limiter.
	wait func(ctx context.Context, failed bool, down func(error)) (*limiter.Slot, error)
	// down is called with the error of the link if the link is down while acquire waits.
	down func(error)

	mu   sync.Mutex
	held *limiter.Slot // guarded by mu; nil while the session has no slot
	// failed is true if the last request has failed, so that acquire waits behind other sessions; guarded by mu.
	failed bool
}

// acquire waits for the slot, unless it is held. The error is ctx's. One goroutine at a time may call it.
func (p *slot) acquire(ctx context.Context) error {
	p.mu.Lock()
	has, failed := p.held != nil, p.failed
	p.mu.Unlock()
	if has {
		return nil
	}
	held, err := p.wait(ctx, failed, p.down)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	return err
}

// release releases the slot, if it is held.
func (p *slot) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held.Done()
	p.held = nil
}

// current returns the slot; nil while it is not held.
func (p *slot) current() *limiter.Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// fails sets whether the last request has failed.
func (p *slot) fails(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = is
}

// releaseIfSlow releases the slot after slowSinkAfter, unless the function that it returns is called before.
func (p *slot) releaseIfSlow() (returned func() bool) {
	return time.AfterFunc(slowSinkAfter, p.release).Stop
}
