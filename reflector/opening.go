package reflector

import (
	"context"
	"time"
)

// opened is the answer to a watch request.
type opened struct {
	st  *stream
	err error
	// overdue is set if this is no answer: none has come in time, and it is still waited for.
	overdue error
}

// opening is a watch request under way on a goroutine of its own, while the pages of a list go on.
type opening struct {
	s       *session
	answers chan opened
	cancel  context.CancelFunc
}

// startOpening asks for a watch. One of wait, took and giveUp must follow.
func (s *session) startOpening(ctx context.Context, rv string, timeout time.Duration) *opening {
	o := &opening{s: s, answers: make(chan opened, 2)}
	ctx, o.cancel = context.WithCancel(ctx)
	go func() {
		st, err := s.open(ctx, rv, timeout, func(err error) { o.answers <- opened{overdue: s.describe("watch", err)} })
		o.answers <- opened{st: st, err: err}
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

// wait waits for the answer.
func (o *opening) wait(overdue func(error)) (*stream, error) {
	for {
		a := <-o.answers
		if a.overdue == nil {
			return o.took(a)
		}
		overdue(a.overdue)
	}
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
	if st, err := o.wait(func(error) {}); err == nil {
		st.close(ctx, o.s)
	}
}
