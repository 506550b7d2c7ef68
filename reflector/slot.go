package reflector

import (
	"context"
	"sync"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
)

// slowSinkAfter is how long a call of the Sink may block before the reflector releases its permission to list (a slot
// of Options.Limiter). A full Sink may block for long, and other reflectors wait for the permission.
const slowSinkAfter = 10 * time.Second

// slot is a permission of Options.Limiter, either to connect or to list. The permission to connect is released when the
// server has accepted the watch or answered the first page. The permission to list is released at the end of the list,
// while a page waits for its retry, and while the Sink blocks for longer than slowSinkAfter. Both permissions are
// released while a call is overdue.
type slot struct {
	wait func(ctx context.Context, failed bool, down func(error)) (*limiter.Slot, error)
	// down is called with the link's error if the link fails while acquire waits.
	down func(error)

	mu sync.Mutex
	// held is nil without a permission. mu guards held.
	held *limiter.Slot
	// failed is true if the last request has failed; then acquire waits behind other reflectors. mu guards failed.
	failed bool
}

// acquire waits for the Limiter's permission, unless the slot has it. Only one goroutine at a time may call acquire.
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

func (p *slot) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held.Done()
	p.held = nil
}

func (p *slot) current() *limiter.Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *slot) fails(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = is
}

// releaseIfSlow releases the permission after slowSinkAfter, unless the caller calls the returned function before.
func (p *slot) releaseIfSlow() (returned func() bool) {
	return time.AfterFunc(slowSinkAfter, p.release).Stop
}
