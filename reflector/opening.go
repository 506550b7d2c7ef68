package reflector

import (
	"context"

	"k8s.io/utils/clock"
)

// opened is the answer to a watch request.
type opened struct {
	st  *stream
	err error
	// overdue is not nil if this is not the answer but a note that the request is overdue. Its goroutine still waits
	// for the answer.
	overdue error
}

// opening is a watch request on a goroutine of its own, beside the pages of a list.
type opening struct {
	clock   clock.Clock
	answers chan opened
	cancel  context.CancelFunc
}

// answer returns the channel of the answer; a nil channel if o is nil.
func (o *opening) answer() <-chan opened {
	if o == nil {
		return nil
	}
	return o.answers
}

// wait waits for the answer, and returns the result of took. It calls overdue while the request is overdue.
func (o *opening) wait(overdue func(error)) (*stream, error) {
	for {
		a := <-o.answers
		if a.overdue == nil {
			return o.took(a)
		}
		overdue(a.overdue)
	}
}

// took returns the stream of an answer, or the error. The stream owns the request's context from then on.
func (o *opening) took(a opened) (*stream, error) {
	if a.err != nil {
		o.cancel()
		return nil, a.err
	}
	inner := a.st.cancel
	a.st.cancel = func() { inner(); o.cancel() }
	return a.st, nil
}

// giveUp cancels the request, waits for its goroutine, and closes the stream if it has opened one.
func (o *opening) giveUp(ctx context.Context) {
	if o == nil {
		return
	}
	o.cancel()
	if st, err := o.wait(func(error) {}); err == nil {
		st.close(ctx, o.clock)
	}
}
