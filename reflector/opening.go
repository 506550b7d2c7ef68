package reflector

import (
	"context"
	"time"
)

// opened is the answer to a watch request.
type opened struct {
	st  *stream
	err error
}

// opening is a watch request under way on a goroutine of its own, while the pages of a list go on.
type opening struct {
	s       *session
	answers chan opened
	cancel  context.CancelFunc
}

// startOpening asks for a watch. One of took and giveUp must follow.
func (s *session) startOpening(ctx context.Context, rv string, timeout time.Duration) *opening {
	o := &opening{s: s, answers: make(chan opened, 1)}
	ctx, o.cancel = context.WithCancel(ctx)
	go func() {
		st, err := s.open(ctx, rv, timeout)
		o.answers <- opened{st, err}
	}()
	return o
}

// answer is where the answer comes; never, for nil.
func (o *opening) answer() <-chan opened {
	if o == nil {
		return nil
	}
	return o.answers
}

// took makes the stream, if there is one, the owner of the request's context.
func (o *opening) took(a opened) (*stream, error) {
	if a.err != nil {
		o.cancel()
		return nil, a.err
	}
	inner := a.st.cancel
	a.st.cancel = func() { inner(); o.cancel() }
	return a.st, nil
}

// giveUp cancels the request and waits until nothing of it is left.
func (o *opening) giveUp(ctx context.Context) {
	if o == nil {
		return
	}
	o.cancel()
	if a := <-o.answers; a.st != nil {
		a.st.close(ctx, o.s)
	}
}
