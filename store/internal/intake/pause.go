package intake

import (
	"context"
	"sync/atomic"
)

// pause makes writers wait, under no lock, while another goroutine catches up with them. The zero value does not.
type pause struct {
	end atomic.Pointer[chan struct{}] // closed when the pause is over; nil if there is no pause
}

// begin makes new writes wait until resume is called. Writes that are under way go on.
func (p *pause) begin() (resume func()) {
	end := make(chan struct{})
	p.end.Store(&end)
	return func() {
		p.end.CompareAndSwap(&end, nil) // unless another pause has begun meanwhile
		close(end)
	}
}

// wait returns once there is no pause, or with the error of ctx. The caller must hold no lock.
func (p *pause) wait(ctx context.Context) error {
	for {
		end := p.end.Load()
		if end == nil {
			return ctx.Err()
		}
		select {
		case <-*end:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
