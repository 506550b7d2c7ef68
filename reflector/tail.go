package reflector

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

// tail is the watch that runs beside a list of several pages; its events become part of the list. Whenever the watch
// ends, it is opened again from the resourceVersion that it has reached, until the list ends or the server has lost the
// history.
type tail struct {
	l       *list
	st      *stream
	opening *opening
	// timer fires when the open watch has been silent for too long, or when the next watch may be opened.
	timer   clock.Timer
	backoff backoff
	// draining is true once all pages have been received and the watch only has to reach list.target. quiet counts the
	// short watches in a row that ended without a message.
	draining bool
	quiet    int
	// err is why no watch is open at the moment; nil while a watch is open.
	err error
	// dead is the error after which the list opens no more watches: a lost history or a refusal; nil before.
	dead error
}

func (t *tail) start(ctx context.Context) {
	timeout := watchTimeout()
	if t.draining {
		timeout = drainTimeout
	}
	t.opening = t.l.s.conn.startOpening(ctx, t.l.fold.RV, timeout)
}

func (t *tail) ensure(ctx context.Context) {
	if t.opening == nil && t.st == nil && t.timer == nil && t.dead == nil {
		t.start(ctx)
	}
}

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

func (t *tail) events() <-chan watch.Event {
	if t.st == nil {
		return nil
	}
	return t.st.w.ResultChan()
}

func (t *tail) handle(ctx context.Context, ev watch.Event, ok bool) outcome {
	switch {
	case !ok:
		t.ended(ctx)
	case ev.Type == watch.Error:
		err := t.l.s.conn.describe("watch", eventError(ev))
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
		// Without bookmarks nothing can prove that the watch has reached the target, as in drainedQuietly.
		t.l.target = t.l.fold.RV
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
	refused := (rejected(err) || isForbidden(err)) && refusals.again(t.l.fold.RV, now)
	if isExpired(err) || isTooLarge(err) || t.l.s.isBadEventAt(err, t.l.fold.RV) || refused {
		t.dead = err
		return
	}
	t.setTimer(t.backoff.Next(retryAfter(err)))
}

// drain is called once all pages have been received. It replaces the watch by a watch with a three-second time-out,
// because the server sends a bookmark before that time-out.
func (t *tail) drain(ctx context.Context) {
	t.draining = true
	if t.dead != nil || (t.st == nil && t.opening == nil && t.timer != nil) {
		return
	}
	t.close(ctx)
	t.start(ctx)
}

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

func (t *tail) limit() time.Duration {
	return t.l.s.watching.silence.Limit(t.st.draining(), t.l.fold.RV)
}

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

func (t *tail) timerC() <-chan time.Time {
	if t.timer == nil {
		return nil
	}
	return t.timer.C()
}

func (t *tail) drop(ctx context.Context) {
	t.stopTimer()
	if t.st == nil {
		return
	}
	if t.l.s.o.Clock.Since(t.st.begun) >= healthyWatch {
		t.backoff.Reset()
	}
	t.st.close(ctx, t.l.s.o.Clock)
	t.st = nil
}

func (t *tail) close(ctx context.Context) {
	t.drop(ctx)
	t.opening.giveUp(ctx)
	t.opening = nil
}

func (t *tail) release() (*stream, *opening) {
	st, o := t.st, t.opening
	t.st, t.opening = nil, nil
	t.stopTimer()
	return st, o
}
