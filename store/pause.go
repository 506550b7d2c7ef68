package store

import (
	"context"
	"sync"
)

// pause has those who write wait, under no lock, while somebody catches up with them. The zero value lets them pass.
type pause struct {
	mu  sync.Mutex
	end chan struct{} // closed when it is over; nil if there is none; guarded by mu
}

// begin has writes wait until resume is called. Those that are under way go on.
func (p *pause) begin() (resume func()) {
	end := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = end
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.end == end { // else another has begun meanwhile
			p.end = nil
		}
		close(end)
	}
}

// wait returns once there is none, or with the error of ctx. Who calls it holds no lock.
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
