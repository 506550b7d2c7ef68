package reflector

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/reflector/internal/pace"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// tail is the watch that is folded into a list of several pages. Whenever it ends it is opened again from the fold's
// resourceVersion, until it is released or the server has lost the history.
type tail struct {
	l *list
	// st is the open watch; nil if there is none.
	st *stream
	// opening is the watch request in progress; nil if there is none.
	opening *opening
	// timer bounds the silence of an open watch, or delays the next watch.
	timer   clock.Timer
	backoff pace.Backoff
	// draining is true once all pages have been taken and the fold only has to reach the target. quiet counts silent
	// drains.
	draining bool
	quiet    int
	// err is why there is no watch at the moment; nil if there is one.
	err error
	// dead is the error after which no watch is opened any more, because the history is lost or watches are refused; nil
	// before.
	dead error
}

// start requests a watch from the fold's resourceVersion, on a goroutine of its own.
func (t *tail) start(ctx context.Context) {
	timeout := watchTimeout()
	if t.draining {
		timeout = pace.DrainTimeout
	}
	t.opening = t.l.s.conn.startOpening(ctx, t.l.fold.RV, timeout)
}

// ensure starts the watch unless that has been done.
func (t *tail) ensure(ctx context.Context) {
	if t.opening == nil && t.st == nil && t.timer == nil && t.dead == nil {
		t.start(ctx)
	}
}

// accept handles the answer of an opening.
func (t *tail) accept(ctx context.Context, a opened) {
	if a.overdue != nil {
		t.l.s.conn.report(ctx, a.overdue)
		t.l.s.conn.yield()
		t.err = a.overdue
		t.l.showErr()
		return
	}
	st, err := t.opening.took(a)
	t.opening = nil
	if err != nil {
		t.lost(ctx, err)
		return
	}
	t.st = st
	t.l.s.accepted(t.st)
	t.err = nil
	t.l.showErr()
	t.setTimer(t.limit())
}

// events returns the open watch's channel; nil if there is none.
func (t *tail) events() <-chan watch.Event {
	if t.st == nil {
		return nil
	}
	return t.st.w.ResultChan()
}

// handle handles an event of the watch, or its end (ok is false).
func (t *tail) handle(ctx context.Context, ev watch.Event, ok bool) outcome {
	switch {
	case !ok:
		t.ended(ctx)
	case ev.Type == watch.Error:
		err := t.l.s.conn.describe("watch", request.EventError(ev))
		t.drop(ctx)
		t.lost(ctx, err)
	default:
		t.l.s.message(t.st)
		if err := t.fold(ctx, ev); err != nil {
			return t.l.s.sinkClosed(err)
		}
		t.st.waitBegun = t.l.s.o.Clock.Now()
	}
	return outcome{}
}

// fold delivers an event to the sink as part of the Replace. A bookmark only advances the fold.
func (t *tail) fold(ctx context.Context, ev watch.Event) error {
	s, l := t.l.s, t.l
	l.at = s.o.Clock.Now()
	if ev.Type == watch.Bookmark {
		s.watching.bookmarks = true
		t.st.bookmarks++
		l.fold.Advance(eventRV(ev))
		return nil
	}
	return l.foldIn(ctx, ev)
}

// ended handles the end of the watch without an error. Another watch follows, at once if this one lived long enough.
func (t *tail) ended(ctx context.Context) {
	s := t.l.s
	full, lively := t.st.end(s.o.Clock.Now())
	if lively {
		s.holds(t.st)
	}
	quiet := t.draining && full && t.st.messages == 0 && !s.watching.bookmarks
	t.drop(ctx)
	if !lively {
		t.lost(ctx, s.conn.describe("watch", ErrShortWatch))
		return
	}
	t.quiet++
	if !quiet {
		t.quiet = 0
	}
	if t.quiet >= quietDrains {
		t.l.target = t.l.fold.RV // without bookmarks no proof is possible: see drainedQuietly
		return
	}
	t.start(ctx)
}

// lost handles a watch that failed or was not accepted. It reports the error even if the list does not need the watch,
// since watch error handlers expect every failure. Another watch follows after a back-off, unless the history is lost
// or the watch was refused several times.
func (t *tail) lost(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	t.l.s.conn.report(ctx, err)
	t.err = err
	t.l.showErr()
	now, refusals := t.l.s.o.Clock.Now(), &t.l.s.watching.refusals
	refused := (request.Rejected(err) || request.Denied(err)) && refusals.again(t.l.fold.RV, now)
	if request.Expired(err) || request.TooLarge(err) || t.l.s.isBadEventAt(err, t.l.fold.RV) || refused {
		t.dead = err
		return
	}
	t.setTimer(t.backoff.Next(request.RetryAfter(err)))
}

// drain is called once all pages have been taken. It opens a watch with a short time-out, whose bookmark arrives soon.
func (t *tail) drain(ctx context.Context) {
	t.draining = true
	if t.dead != nil || (t.st == nil && t.opening == nil && t.timer != nil) {
		return // dead, or waiting for the next attempt
	}
	t.close(ctx)
	t.start(ctx)
}

// alarm is called when the timer has fired: it opens the next watch, and replaces the current one if that is silent.
func (t *tail) alarm(ctx context.Context) {
	t.timer = nil
	if t.st == nil {
		t.start(ctx)
		return
	}
	if rest := t.limit() - t.l.s.o.Clock.Since(t.st.waitBegun); rest > 0 {
		t.setTimer(rest)
		return
	}
	t.l.s.watching.silence.Closed(t.l.fold.RV)
	t.drop(ctx)
	t.start(ctx)
}

// limit returns how long the open watch may be silent.
func (t *tail) limit() time.Duration {
	return t.l.s.watching.silence.Limit(t.st.draining(), t.l.fold.RV)
}

// setTimer replaces the timer.
func (t *tail) setTimer(d time.Duration) {
	t.stopTimer()
	t.timer = t.l.s.o.Clock.NewTimer(d)
}

func (t *tail) stopTimer() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// timerC returns the timer's channel; nil if there is no timer.
func (t *tail) timerC() <-chan time.Time {
	if t.timer == nil {
		return nil
	}
	return t.timer.C()
}

// drop closes the open watch.
func (t *tail) drop(ctx context.Context) {
	t.stopTimer()
	if t.st == nil {
		return
	}
	if t.l.s.o.Clock.Since(t.st.begun) >= pace.Health {
		t.backoff.Reset()
	}
	t.st.close(ctx, t.l.s.o.Clock)
	t.st = nil
}

// close closes the watch, or cancels its request, and waits for it.
func (t *tail) close(ctx context.Context) {
	t.drop(ctx)
	t.opening.giveUp(ctx)
	t.opening = nil
}

// release returns the open watch and the watch request in progress, and stops the timer. The caller owns them.
func (t *tail) release() (*stream, *opening) {
	st, o := t.st, t.opening
	t.st, t.opening = nil, nil
	t.stopTimer()
	return st, o
}
