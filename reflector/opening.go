package reflector

import (
	"context"

	"k8s.io/utils/clock"
)

type opened struct {
	st  *stream
	err error
	// overdue is not nil if this value only says that the request has outlived its time-out. The request's result
	// follows in another value.
	overdue error
}

// opening is a watch request on its own goroutine, so that pages of a list can be fetched at the same time.
type opening struct {
	clock   clock.Clock
	answers chan opened
	cancel  context.CancelFunc
}

func (o *opening) answer() <-chan opened {
	if o == nil {
		return nil
	}
	return o.answers
}

// wait waits for the result of the watch request. It calls overdue if the request outlives its time-out.
func (o *opening) wait(overdue func(error)) (*stream, error) {
	for {
		a := <-o.answers
		if a.overdue == nil {
			return o.took(a)
		}
		overdue(a.overdue)
	}
}

// took returns a result's open watch, which then owns the request's context, or the result's error.
func (o *opening) took(a opened) (*stream, error) {
	if a.err != nil {
		o.cancel()
		return nil, a.err
	}
	inner := a.st.cancel
	a.st.cancel = func() { inner(); o.cancel() }
	return a.st, nil
}

// giveUp cancels the watch request and waits for its goroutine. If a watch was opened meanwhile, giveUp closes it.
func (o *opening) giveUp(ctx context.Context) {
	if o == nil {
		return
	}
	o.cancel()
	if st, err := o.wait(func(error) {}); err == nil {
		st.close(ctx, o.clock)
	}
}
