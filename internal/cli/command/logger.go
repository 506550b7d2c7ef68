package command

import (
	"context"
	"errors"
	"slices"

	"github.com/go-logr/logr"
)

// WithoutGivenUp returns logger without the errors of cancelled requests: client-go logs each request whose response
// was being read when the command was interrupted. It also drops the info messages listed in told, which the command
// reports itself.
func WithoutGivenUp(logger logr.Logger, told ...string) logr.Logger {
	return logr.New(&givenUpSink{logger.GetSink(), told})
}

// givenUpSink is a logr.LogSink that drops context.Canceled errors and the info messages in told.
type givenUpSink struct {
	to   logr.LogSink
	told []string
}

// Init implements logr.LogSink. The wrapped sink is one call deeper.
func (s *givenUpSink) Init(info logr.RuntimeInfo) {
	info.CallDepth++
	s.to.Init(info)
}

// Enabled implements logr.LogSink.
func (s *givenUpSink) Enabled(level int) bool { return s.to.Enabled(level) }

// Info implements logr.LogSink.
func (s *givenUpSink) Info(level int, msg string, keysAndValues ...any) {
	if !slices.Contains(s.told, msg) {
		s.to.Info(level, msg, keysAndValues...)
	}
}

// Error implements logr.LogSink.
func (s *givenUpSink) Error(err error, msg string, keysAndValues ...any) {
	if !isGivenUp(err) {
		s.to.Error(err, msg, keysAndValues...)
	}
}

// isGivenUp reports whether err is context.Canceled alone, wrapped or not. A joined error may hold other failures.
func isGivenUp(err error) bool {
	for err != nil && err != context.Canceled { //nolint:errorlint // errors.Is would find it among joined errors
		err = errors.Unwrap(err)
	}
	return err != nil
}

// WithValues implements logr.LogSink.
func (s *givenUpSink) WithValues(keysAndValues ...any) logr.LogSink {
	return &givenUpSink{s.to.WithValues(keysAndValues...), s.told}
}

// WithName implements logr.LogSink.
func (s *givenUpSink) WithName(name string) logr.LogSink {
	return &givenUpSink{s.to.WithName(name), s.told}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s *givenUpSink) WithCallDepth(depth int) logr.LogSink {
	if to, ok := s.to.(logr.CallDepthLogSink); ok {
		return &givenUpSink{to.WithCallDepth(depth), s.told}
	}
	return s
}
