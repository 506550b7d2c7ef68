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

// slot is the session's slot to list.
type slot struct {
	l *limiter.Limiter
	// down is called with the error if the link is down while take waits.
	down func(error)

	mu   sync.Mutex
	held *limiter.Slot // guarded by mu; nil while the session has no slot
}

// take waits for the slot, unless it is held. An error is that of ctx. One goroutine at a time may call it.
func (p *slot) take(ctx context.Context) error {
	p.mu.Lock()
	has := p.held != nil
	p.mu.Unlock()
	if has {
		return nil
	}
	held, err := p.l.List(ctx, p.down)
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

// lend gives the slot back after lendAfter, unless the function that it returns is called before.
func (p *slot) lend() (taken func() bool) { return time.AfterFunc(lendAfter, p.give).Stop }
