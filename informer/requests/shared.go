package requests

import (
	"context"
	"fmt"
	"time"

	"github.com/larder-dev/larder/informer/internal/age"
	"github.com/larder-dev/larder/internal/limiter"
)

// shared reads a value from the server once for all informers that ask within a time.
type shared[T any] struct {
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

func newShared[T any](path string, reused time.Duration, get func(ctx context.Context) (T, error)) *shared[T] {
	return &shared[T]{path: path, reused: reused, get: get, turn: make(chan struct{}, 1)}
}

// read returns the value, which is not older than the context demands (age.Ask): callers that demand one of the same
// moment, as after an outage, share an answer. An error of the connection is not reused.
func (s *shared[T]) read(ctx context.Context) (T, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("GET %s, by another informer: %w", s.path, context.Cause(ctx))
	}
	asked := age.Of(ctx)
	if s.at.IsZero() || time.Since(s.at) >= s.reused || !asked.Allows(s.at) {
		begun := time.Now()
		value, err := s.get(ctx)
		if err != nil && !limiter.Final(err) {
			return value, err
		}
		s.value, s.err, s.at = value, err, begun
	}
	asked.Answer(s.at)
	return s.value, s.err
}
