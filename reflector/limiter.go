package reflector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// lendAfter is how long the sink may take something in until another list may begin meanwhile: a sink that is full may
// be so for good.
const lendAfter = 10 * time.Second

// connect waits for a slot of Options.Limiter, unless it has one. It is false if ctx has ended.
func (s *session) connect(ctx context.Context) bool {
	if s.connecting != nil {
		return true
	}
	var err error
	s.connecting, err = s.o.Limiter.Connect(ctx, func(err error) {
		s.showDown(err)
		// In whatever way our own watch ended: it may be long until there is another one, and of another server.
		s.last = lost
		s.setLive(false)
	})
	return err == nil
}

// showDown says why this session has no connection while others try to make one.
func (s *session) showDown(err error) {
	s.r.board.update(func(st *Status) { st.Err = s.describe("wait to connect for", err) })
}

// connected gives the slot to the next: the server has answered, or this session waits.
func (s *session) connected() {
	s.connecting.Done()
	s.connecting = nil
}

// yield lets others connect and list while a call is overdue, which may never return.
func (s *session) yield() {
	s.connected()
	s.listing.give()
}

// relistInSlot is the state Relist with a slot to list and one to connect. That to list comes first: who waits for
// one has nothing to connect for.
func (s *session) relistInSlot(ctx context.Context) outcome {
	s.connected()
	defer s.listing.give()
	if s.listing.take(ctx) != nil || !s.connect(ctx) {
		return outcome{Kind: stop}
	}
	return s.relist(ctx)
}

// tellLimiter tells the others on Options.Limiter what err says about it.
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

// isUnanswered reports that no API server has answered. A silent watch is none of it: if the link is down the next
// request shows that.
func isUnanswered(err error) bool {
	return !errors.Is(err, ErrPutOff) && limiter.Unanswered(err)
}

// backOff returns how long to wait after lastErr, and what ends the wait before. While the link is down for everybody
// it is all of them that wait, and one that tries. After its first failure each waits for itself: a fleet should not
// come back as one, nor a resource that alone does not answer be tried each time that another one is heard.
func (s *session) backOff() (time.Duration, <-chan struct{}) {
	asked := request.RetryAfter(s.lastErr)
	wait := s.backoff.Next(asked)
	failures, next, recovered := s.o.Limiter.Down()
	if s.lastErr == nil || asked > 0 || !isUnanswered(s.lastErr) || failures < 2 {
		return wait, nil
	}
	return time.Until(next), recovered
}

// slot is the session's among those that list at a time.
type slot struct {
	l *limiter.Limiter
	// down is called while it is waited for and the link is down.
	down func(error)

	mu   sync.Mutex
	held *limiter.Slot // guarded by mu; nil while others have it
}

// take waits for it, unless it is there. An error is that of ctx. One goroutine at a time may call it.
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

// give lets another have it.
func (p *slot) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held.Done()
	p.held = nil
}

// lend gives it if what the sink does until the function returned is called takes long.
func (p *slot) lend() (taken func() bool) { return time.AfterFunc(lendAfter, p.give).Stop }
