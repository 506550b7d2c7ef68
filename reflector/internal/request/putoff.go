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

// answers counts the HTTP responses to a request, including redirections and refusals. client-go's REST client repeats
// a request that is refused with Retry-After, up to ten times. If the request times out meanwhile, its error does not
// mention these refusals.
type answers struct{ n atomic.Int32 }

func (a *answers) count(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { a.n.Add(1) }})
}

// explain wraps ErrPutOff around err if the request timed out while client-go was waiting to repeat it. Two signs show
// that: several responses; or a single response and a url.Error, which net/http returns if the repetition had no
// response. After a single response the context's error alone proves nothing: the time may have ended while a body was
// read.
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
