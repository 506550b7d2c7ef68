package reflector

import (
	"context"
	"sync"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
)

// lendAfter is how long a call of the sink may take before the session gives back its slot to list, since a sink that
// is full may stay full.
const lendAfter = 10 * time.Second

// slot is the session's slot to connect, or the one to list.
type slot struct {
	// wait is the method Connect or List of Options.Limiter.
	wait func(ctx context.Context, failed bool, down func(error)) (*limiter.Slot, error)
	// down is called with the error if the link is down while take waits.
	down func(error)

	mu   sync.Mutex
	held *limiter.Slot // guarded by mu; nil while the session has no slot
	// failed is true if the last request has failed, so that take waits behind others; guarded by mu.
	failed bool
}

// take waits for the slot, unless it is held. An error is that of ctx. One goroutine at a time may call it.
func (p *slot) take(ctx context.Context) error {
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

// give gives the slot back, if it is held.
func (p *slot) give() {
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

// fails says whether the last request has failed.
func (p *slot) fails(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = is
}

// lend gives the slot back after lendAfter, unless the function that it returns is called before.
func (p *slot) lend() (taken func() bool) { return time.AfterFunc(lendAfter, p.give).Stop }
