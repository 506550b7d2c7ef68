package reflector

import (
	"context"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/reflector/internal/pace"
)

const (
	// livelyWatch is how long a watch must have lived for an early but orderly end to be no error.
	livelyWatch = 10 * time.Second
	// closeWait bounds the wait for a ListerWatcher's watch to end, its Stop included.
	closeWait = 5 * time.Second
)

// stream is an open watch. It owns the context that the watch lives in.
type stream struct {
	w       watch.Interface
	cancel  context.CancelFunc
	timeout time.Duration
	// begun is when the watch was asked for, heard when we last had nothing left to read from it.
	begun, heard time.Time
	// messages counts events and bookmarks; bookmarks those alone.
	messages, bookmarks int
	// slow: the guards took longer than the watch before had, so this one's end is believed.
	slow bool
	// resume: it is one if it holds, and has not been counted in Status.Resumes yet.
	resume bool
}

// draining reports a watch with the short time-out of a drain.
func (st *stream) draining() bool { return st.timeout == pace.DrainTimeout }

// watchTimeout is that of a watch once drained: random, so that a fleet's watches do not end together.
func watchTimeout() time.Duration {
	return 5*time.Minute + rand.N(5*time.Minute)
}

// open asks for a watch at rv and waits until it is accepted. It does not touch the session, so it
// may run on another goroutine; overdue is called on it.
func (s *session) open(ctx context.Context, rv string, timeout time.Duration, overdue func(error)) (*stream, error) {
	return s.openWith(ctx, metav1.ListOptions{ResourceVersion: rv}, timeout, overdue)
}

// openWith asks for a watch with these options, and time-out and bookmarks.
func (s *session) openWith(
	ctx context.Context, o metav1.ListOptions, timeout time.Duration, overdue func(error),
) (*stream, error) {
	seconds := int64(timeout / time.Second)
	o.TimeoutSeconds, o.AllowWatchBookmarks = &seconds, true
	st := &stream{timeout: time.Duration(seconds) * time.Second, begun: s.o.Clock.Now()}
	s.r.board.update(func(b *Status) { b.Watches++ })
	limited, cancel := context.WithCancel(ctx)
	st.cancel = cancel
	late := time.AfterFunc(pace.RequestTimeout, st.cancel)
	w, err := s.lw.Watch(ctx, limited, o, overdue)
	if err == nil && !late.Stop() {
		st.w = w
		st.close(ctx, s)
		return nil, s.describe("watch", context.DeadlineExceeded)
	}
	late.Stop()
	if err != nil {
		st.cancel()
		return nil, s.describe("watch", err)
	}
	st.w = w
	st.heard = s.o.Clock.Now()
	return st, nil
}

// accepted notes that the server took the watch.
func (s *session) accepted(st *stream) {
	s.heard()
	if !s.guards.unguarded { // else the guards are asked in this turn, and whatever they say is said of the connection
		s.connected()
		s.healthy()
	}
	st.resume = !s.fresh
	s.fresh = false
	if s.guards.even {
		s.holds(st)
	}
}

// message notes that an event or bookmark came.
func (s *session) message(st *stream) {
	s.heard()
	st.messages++
	s.holds(st)
}

// holds counts a resume, once. That a watch was accepted does not show it: API servers answer 200 and send 410 as the
// first event.
func (s *session) holds(st *stream) {
	if st.resume {
		st.resume = false
		s.r.board.update(func(b *Status) { b.Resumes++ })
	}
}

// close ends the watch and waits until its goroutines are gone, which they show by
// closing the result channel. One that never does, or whose Stop never returns, is left after closeWait.
func (st *stream) close(ctx context.Context, s *session) {
	defer st.cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		defer utilruntime.HandleCrashWithContext(ctx)
		st.w.Stop()
	}()
	results, returned := st.w.ResultChan(), (<-chan struct{})(stopped)
	timer := s.o.Clock.NewTimer(closeWait)
	defer timer.Stop()
	for results != nil || returned != nil {
		select {
		case <-returned:
			returned = nil
			st.cancel()
		case _, ok := <-results:
			if !ok {
				results = nil
			}
		case <-timer.C():
			klog.FromContext(ctx).V(2).Info("The watch did not end after Stop; it is left to itself", "stopReturned",
				returned == nil, "after", closeWait)
			return
		}
	}
}

// closeStream closes the session's stream, if it has one or is getting one. A long life makes the next error the first.
func (s *session) closeStream() {
	s.opening.giveUp(context.Background())
	s.opening = nil
	if s.stream == nil {
		return
	}
	st := s.stream
	s.stream = nil
	if s.o.Clock.Since(st.begun) >= pace.Health {
		s.backoff.Reset()
	}
	st.close(context.Background(), s)
}

// end tells how an end without an error is to be taken. A connection that is cut looks the same as one that the server
// ends; only time tells them apart. full means that the server ended the watch at its own time-out: we were waiting for
// the next event from before that on, and the end came after it.
func (st *stream) end(now time.Time) (full, lively bool) {
	due := st.begun.Add(st.timeout)
	full = !now.Before(due) && (!st.heard.After(due) || st.slow)
	return full, full || now.Sub(st.begun) >= livelyWatch
}
