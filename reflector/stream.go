package reflector

import (
	"context"
	"math/rand/v2"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/reflector/internal/pace"
)

const (
	// livelyWatch is the age from which a watch may end before its time-out without counting as an error.
	livelyWatch = 10 * time.Second
	// closeWait is how long the reflector waits for a ListerWatcher's watch to end, its method Stop included.
	closeWait = 5 * time.Second
)

type stream struct {
	w       watch.Interface
	cancel  context.CancelFunc
	timeout time.Duration
	// begun is when the watch was requested. waitBegun is when the reflector began to wait for the watch's next event.
	begun, waitBegun time.Time
	// messages counts the events and bookmarks of the watch; bookmarks counts only its bookmarks.
	messages, bookmarks int
	// slow is true if checks of the server, or fetches of objects that the Sink could not store, took longer than the
	// watch's time-out. Then an end of this watch after its time-out counts as in order, even though the reflector
	// notices it late.
	slow bool
	// resume is true if the watch resumes from a stored resourceVersion and has not been counted in Status.Resumes yet.
	resume bool
}

func (st *stream) draining() bool { return st.timeout == pace.DrainTimeout }

// watchTimeout returns a random time-out for a watch, so that a fleet's watches do not end together. The short watches
// of the state Drain have pace.DrainTimeout instead.
func watchTimeout() time.Duration {
	return 5*time.Minute + rand.N(5*time.Minute)
}

func (s *session) accepted(st *stream) {
	s.conn.received()
	s.showListOnly(false)
	if !s.guards.pending { // until the guards have checked the server, the connection does not count as working
		s.conn.connected()
		s.healthy()
	}
	st.resume = !s.watching.fresh
	s.watching.fresh = false
	if s.guards.even {
		s.holds(st)
	}
}

func (s *session) message(st *stream) {
	s.conn.received()
	st.messages++
	s.holds(st)
}

// close stops the watch and waits up to closeWait until the result channel is closed and Stop has returned, so the
// watch's goroutines have ended.
func (st *stream) close(ctx context.Context, clk clock.Clock) {
	defer st.cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		defer utilruntime.HandleCrashWithContext(ctx)
		st.w.Stop()
	}()
	results, returned := st.w.ResultChan(), (<-chan struct{})(stopped)
	timer := clk.NewTimer(closeWait)
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

// closeStream closes the open watch, and cancels the watch request in progress. It resets the back-offs if the watch
// lived for two minutes (pace.Health).
func (s *session) closeStream() {
	s.watching.opening.giveUp(context.Background())
	s.watching.opening = nil
	if s.watching.stream == nil {
		return
	}
	st := s.watching.stream
	s.watching.stream = nil
	if s.o.Clock.Since(st.begun) >= pace.Health {
		s.conn.backoff.Reset()
		s.lists.backoff.Reset()
	}
	st.close(context.Background(), s.o.Clock)
}

// end classifies the end of a watch without an error. A broken connection looks the same as an end by the server; only
// the time distinguishes them. full is true if the server ended the watch at its time-out: the reflector was waiting
// for an event when the time-out passed, and the watch ended later. lively is true if full, or if the watch lived for
// livelyWatch.
func (st *stream) end(now time.Time) (full, lively bool) {
	due := st.begun.Add(st.timeout)
	full = !now.Before(due) && (!st.waitBegun.After(due) || st.slow)
	return full, full || now.Sub(st.begun) >= livelyWatch
}

// holds counts the watch in Status.Resumes, once, if it resumes from a stored resourceVersion. The caller knows that
// the watch works. Acceptance alone is no proof: API servers answer 200 and send a 410 as the first event.
func (st *stream) holds(b *board) {
	if st.resume {
		st.resume = false
		b.update(func(s *Status) { s.Resumes++ })
	}
}
