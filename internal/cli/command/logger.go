package command

import (
	"context"
	"errors"
	"slices"

	"github.com/go-logr/logr"
)

// WithoutCanceled returns logger without the errors of cancelled requests, because client-go logs each request that the
// interruption of a command cancels. It also drops the info messages in reported, which the command reports itself.
func WithoutCanceled(logger logr.Logger, reported ...string) logr.Logger {
	return logr.New(&canceledSink{logger.GetSink(), reported})
}

type canceledSink struct {
	to       logr.LogSink
	reported []string
}

// Init implements logr.LogSink. It adds one to the call depth, because a method of canceledSink calls the wrapped sink.
func (s *canceledSink) Init(info logr.RuntimeInfo) {
	info.CallDepth++
	s.to.Init(info)
}

func (s *canceledSink) Enabled(level int) bool { return s.to.Enabled(level) }

func (s *canceledSink) Info(level int, msg string, keysAndValues ...any) {
	if !slices.Contains(s.reported, msg) {
		s.to.Info(level, msg, keysAndValues...)
	}
}

func (s *canceledSink) Error(err error, msg string, keysAndValues ...any) {
	if !isCanceled(err) {
		s.to.Error(err, msg, keysAndValues...)
	}
}

// isCanceled reports whether err is context.Canceled, wrapped or not, and nothing else. A joined error may also contain
// other failures, which must be logged.
func isCanceled(err error) bool {
	for err != nil && err != context.Canceled { //nolint:errorlint // errors.Is would find it among joined errors
		err = errors.Unwrap(err)
	}
	return err != nil
}

func (s *canceledSink) WithValues(keysAndValues ...any) logr.LogSink {
	return &canceledSink{s.to.WithValues(keysAndValues...), s.reported}
}

func (s *canceledSink) WithName(name string) logr.LogSink {
	return &canceledSink{s.to.WithName(name), s.reported}
}

func (s *canceledSink) WithCallDepth(depth int) logr.LogSink {
	if to, ok := s.to.(logr.CallDepthLogSink); ok {
		return &canceledSink{to.WithCallDepth(depth), s.reported}
	}
	return s
}
