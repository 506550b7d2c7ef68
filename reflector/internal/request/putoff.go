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

// answers counts the responses to a request, redirections and refusals included. client-go's REST client repeats a
// request that is refused with Retry-After up to ten times, and its error does not say so if the time ends meanwhile.
type answers struct{ n atomic.Int32 }

// count returns a context for the request that counts its responses.
func (a *answers) count(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { a.n.Add(1) }})
}

// explain wraps ErrPutOff around the error of a request whose time ended while it waited to be repeated. Then there was
// a response, and the last request had none, for which net/http returns a url.Error. While client-go's rate limiter
// holds the request, the error is the context's alone; but so it is if the time ends while a body is read. Several
// responses tell the first case from the second.
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
