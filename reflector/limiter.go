package reflector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// lendAfter is how long a call of the sink may take before the session gives back its slot to list, since a sink that
// is full may stay full.
const lendAfter = 10 * time.Second

// connect waits for a slot to connect, unless the session has one. It returns false if ctx has ended.
func (s *session) connect(ctx context.Context) bool {
	if s.connecting != nil {
		return true
	}
	var err error
	s.connecting, err = s.o.Limiter.Connect(ctx, func(err error) {
		s.showDown(err)
		// Even if our own watch ended in order: the next one may come much later, and from another server.
		s.last = lost
		s.setLive(false)
	})
	return err == nil
}

// showDown sets Status.Err to the error for which this session waits while another one tries to connect.
func (s *session) showDown(err error) {
	s.r.board.update(func(st *Status) { st.Err = s.describe("wait to connect for", err) })
}

// connected gives back the slot to connect: the server has answered, or this session backs off.
func (s *session) connected() {
	s.connecting.Done()
	s.connecting = nil
}

// yield gives back both slots while a call is overdue, since that call may never return.
func (s *session) yield() {
	s.connected()
	s.listing.give()
}

// relistInSlot is the state Relist, with a slot to list and one to connect. It takes the slot to list first, so that a
// session that waits for it does not hold a slot to connect.
func (s *session) relistInSlot(ctx context.Context) outcome {
	s.connected()
	defer s.listing.give()
	if s.listing.take(ctx) != nil || !s.connect(ctx) {
		return outcome{Kind: stop}
	}
	return s.relist(ctx)
}

// tellLimiter reports err to Options.Limiter: the server has answered, or the connection has failed.
func (s *session) tellLimiter(err error) {
	switch {
	case limiter.Answered(err), errors.Is(err, ErrPutOff):
		s.o.Limiter.Heard()
	case !isUnanswered(err):
	case s.connecting != nil:
		s.connecting.Failed(err)
	default:
		s.o.Limiter.Lost(err)
	}
}

// isUnanswered reports whether err says that no API server has answered. A silent watch does not: if the link is down,
// the next request shows that.
func isUnanswered(err error) bool {
	return !errors.Is(err, ErrPutOff) && limiter.Unanswered(err)
}

// backOff returns how long to wait after lastErr, and a channel that ends the wait early (nil for none). While the link
// is down, the limiter's back-off applies to all sessions. After a first failure, and if only this resource fails, the
// session's own applies: then a fleet does not return at once, and another resource's answers do not end the wait.
func (s *session) backOff() (time.Duration, <-chan struct{}) {
	asked := request.RetryAfter(s.lastErr)
	wait := s.backoff.Next(asked)
	failures, next, recovered := s.o.Limiter.Down()
	if s.lastErr == nil || asked > 0 || !isUnanswered(s.lastErr) || failures < 2 {
		return wait, nil
	}
	return time.Until(next), recovered
}

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
