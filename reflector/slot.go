package reflector

import (
	"context"
	"sync"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
)

// slowSinkAfter is how long a call of the sink may block before the session releases its permission to list (a slot of
// Options.Limiter). A full sink may block for long, and other reflectors wait for the permission.
const slowSinkAfter = 10 * time.Second

// slot is a session's permission of Options.Limiter, either to connect or to list. The permission to connect is
// released when the server has accepted the watch or answered the first page. The permission to list is released at the
// end of the list, while a page waits for its retry, and while the sink blocks for longer than slowSinkAfter. Both are
// released while a call is overdue.
type slot struct {
	// wait is the Limiter's method that grants the permission: Connect or List.
	wait func(ctx context.Context, failed bool, down func(error)) (*limiter.Slot, error)
	// down is called with the error of the failed link if the link fails while acquire waits.
	down func(error)

	mu   sync.Mutex
	held *limiter.Slot // guarded by mu; nil while the session has no permission
	// failed is true if the session's last request has failed; then acquire waits behind other sessions. Guarded by mu.
	failed bool
}

// acquire waits for the Limiter's permission, unless the session has it already. It fails with ctx's error. One
// goroutine at a time may call it.
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

// release returns the permission to the Limiter, if the session has it.
func (p *slot) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held.Done()
	p.held = nil
}

// current returns the Limiter's slot that the session holds; nil if it holds none.
func (p *slot) current() *limiter.Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// fails records whether the session's last request has failed. After a failure the session waits behind others.
func (p *slot) fails(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = is
}

// releaseIfSlow releases the permission after slowSinkAfter. The caller calls the returned function when the sink has
// returned, to prevent that.
func (p *slot) releaseIfSlow() (returned func() bool) {
	return time.AfterFunc(slowSinkAfter, p.release).Stop
}
