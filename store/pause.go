package store

import (
	"context"
	"sync"
)

// pause makes writers wait, under no lock, while another goroutine catches up with them. The zero value does not.
type pause struct {
	mu  sync.Mutex
	end chan struct{} // closed when the pause is over; nil if there is no pause; guarded by mu
}

// begin makes new writes wait until resume is called. Writes that are under way go on.
func (p *pause) begin() (resume func()) {
	end := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = end
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.end == end { // else another pause has begun meanwhile
			p.end = nil
		}
		close(end)
	}
}

// wait returns once there is no pause, or with the error of ctx. The caller must hold no lock.
func (p *pause) wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		end := p.end
		p.mu.Unlock()
		if end == nil {
			return ctx.Err()
		}
		select {
		case <-end:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
