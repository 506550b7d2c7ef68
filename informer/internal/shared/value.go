package shared

import (
	"context"
	"fmt"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
)

// Value reads a value from the server once for all informers that ask within a time.
type Value[T any] struct {
	path   string
	reused time.Duration
	get    func(ctx context.Context) (T, error)
	// turn is a lock of capacity 1: its holder reads from the server and uses the fields below.
	turn chan struct{}
	// value is the last answer, err the server's refusal if there was one, and at when it was requested.
	value T
	err   error
	at    time.Time
}

// New returns a Value that get reads with a request to path. An answer is reused for a time after its request.
func New[T any](path string, reused time.Duration, get func(ctx context.Context) (T, error)) *Value[T] {
	return &Value[T]{path: path, reused: reused, get: get, turn: make(chan struct{}, 1)}
}

// Read returns the value, which is not older than the context demands (Ask): callers that demand one of the same
// moment, as after an outage, share an answer. An error of the connection is not reused.
func (s *Value[T]) Read(ctx context.Context) (T, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
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
