package shared

import (
	"context"
	"fmt"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
)

// Value reads a value from the server and shares it among informers that read it within a few seconds or minutes.
type Value[T any] struct {
	path   string
	reused time.Duration
	get    func(ctx context.Context) (T, error)
	// sem is a semaphore of capacity 1. Its holder may request the value, and use the fields below.
	sem chan struct{}
	// value is the last answer. err is the server's refusal if it refused. at is when the answer was requested.
	value T
	err   error
	at    time.Time
}

// New returns a Value. get requests it from path. An answer is reused until the duration reused has passed since its
// request.
func New[T any](path string, reused time.Duration, get func(ctx context.Context) (T, error)) *Value[T] {
	return &Value[T]{path: path, reused: reused, get: get, sem: make(chan struct{}, 1)}
}

// Read returns the value. It is at least as new as the context demands (Ask), so callers that demand a newer one after
// an outage share one request. Errors of the connection are not reused.
func (s *Value[T]) Read(ctx context.Context) (T, error) {
	select {
	case s.sem <- struct{}{}:
		defer func() { <-s.sem }()
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("GET %s, by another informer: %w", s.path, context.Cause(ctx))
	}
	asked := of(ctx)
	if s.at.IsZero() || time.Since(s.at) >= s.reused || !asked.allows(s.at) {
		begun := time.Now()
		value, err := s.get(ctx)
		if err != nil && !limiter.Final(err) {
			return value, err
		}
		s.value, s.err, s.at = value, err, begun
	}
	asked.answer(s.at)
	return s.value, s.err
}

// Asked belongs to one call of a function that reads from the server. It holds the earliest acceptable request time of
// the answer, and later the answer's actual request time. The called function uses it until it returns, and then the
// caller. A nil Asked accepts answers of any age.
type Asked struct {
	notBefore, read time.Time
}

type contextKey struct{}

// Ask returns a context for a call whose answer must not have been requested from the server before notBefore. The zero
// time allows any answer that the function reuses.
func Ask(ctx context.Context, notBefore time.Time) (context.Context, *Asked) {
	a := &Asked{notBefore: notBefore}
	return context.WithValue(ctx, contextKey{}, a), a
}

func of(ctx context.Context) *Asked {
	a, _ := ctx.Value(contextKey{}).(*Asked)
	return a
}

func (a *Asked) allows(read time.Time) bool { return a == nil || !read.Before(a.notBefore) }

func (a *Asked) answer(read time.Time) {
	if a != nil {
		a.read = read
	}
}

// Read returns when the answer was requested; the zero time if the called function did not say.
func (a *Asked) Read() time.Time { return a.read }
