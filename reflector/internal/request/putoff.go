package request

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
)

// answers counts what a request is answered with, redirections and refusals included: client-go's REST client makes a
// request that is refused with Retry-After again, up to ten times, and says nothing of that when its time ends
// meanwhile.
type answers struct{ n atomic.Int32 }

// count returns a context for the request.
func (a *answers) count(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { a.n.Add(1) }})
}

// explain wraps ErrPutOff around the error of a request that ran out of time while it waited to be made again. Then
// there has been an answer, and no body of the last request's: net/http says so by a url.Error, which is what a request
// ends with that is not answered. But while client-go's rate limiter has it the error is that of the context alone, and
// so it is where a body is read by hand. That there were several answers tells the one from the other.
func (a *answers) explain(err error) error {
	var unanswered *url.Error
	n := a.n.Load()
	switch {
	case !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), inTheBody):
	case n > 1, n == 1 && errors.As(err, &unanswered):
		return fmt.Errorf("%w: %w", ErrPutOff, err)
	}
	return err
}
