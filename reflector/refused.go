package reflector

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/reflector/internal/history"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// listOnlyWait is the minimum time between two lists of a resource that cannot be watched. The maximum is twice as
// long, without Options.RelistSpread. client-go lists as often.
const listOnlyWait = 30 * time.Second

// errListOnly is the error of a list that needs a watch to complete the state at one resourceVersion, of a resource
// that cannot be watched.
var errListOnly = errors.New("the objects changed during the list, and the resource cannot be watched")

// refusals counts refusals of one kind of request: of watches, since the last list or since a watch has held, or of a
// list's continue token (pager.refusals).
type refusals struct {
	// listAt is when a list is due because watches are denied; zero if no list is due.
	listAt time.Time
	// from is the resourceVersion of the watches, or the continue token, that was refused for other reasons
	// (request.Rejected). n counts these refusals, and first is the time of the first one.
	from  string
	n     int
	first time.Time
}

const (
	// enoughRefusals and refusedTime are how many watches from one resourceVersion must be refused, over what time, before
	// a list may follow. A server that is starting or being repaired gives odd answers too, but not for long.
	enoughRefusals = 3
	refusedTime    = 10 * time.Second
)

// again counts a refusal of rv, a resourceVersion or a continue token. It returns true from the third one on, ten
// seconds or more after the first. A lost connection in between is not counted, and does not reset the count.
func (r *refusals) again(rv string, now time.Time) bool {
	if r.n == 0 || r.from != rv {
		r.from, r.n, r.first = rv, 0, now
	}
	r.n++
	return r.n >= enoughRefusals && now.Sub(r.first) >= refusedTime
}

// watchLost returns the outcome of a watch that failed with err and may be retried from the same resourceVersion.
func (s *session) watchLost(ctx context.Context, err error) outcome {
	if o := s.lose(ctx, err); o.Kind != failed {
		return o
	}
	if request.Rejected(err) && s.watching.refusals.again(s.cur.RV, s.o.Clock.Now()) {
		return outcome{Kind: refused}
	}
	return outcome{Kind: failed}
}

// ifMovedOn is the state Refused. Servers without a watch cache (kine, dqlite) answer a compacted resourceVersion with
// 500 and other codes. So it lists if the probe shows a change, or if nothing was confirmed in this run yet: that watch
// will never be served.
func (s *session) ifMovedOn(ctx context.Context) outcome {
	if !s.connect(ctx) {
		return outcome{Kind: stop}
	}
	why := s.conn.lastErr
	rv, err := s.guards.probe(ctx)
	switch {
	case err != nil:
		return s.lose(ctx, err)
	case history.Below(rv, s.cur.RV):
		return s.guards.ahead(ctx, rv)
	case rv == s.cur.RV && s.served:
		return outcome{Kind: failed}
	}
	klog.FromContext(ctx).Info("The server refuses again and again to watch from the resourceVersion that we hold: "+
		"its history is taken for lost", "resourceVersion", s.cur.RV, "server", rv, "err", why)
	o := s.listFor(ReasonExpired)
	o.Wait = s.spread > 0 // without RelistSpread the list need not wait: the refusals have taken ten seconds
	return o
}

// watchDenied handles a watch that is answered with 403, 404 or 405. Permissions and CRDs are often applied a moment
// later, so the watch is retried after the back-off. The contents must not grow stale meanwhile, so after some time the
// outcome is a list, and then another retry. The list is due at once if nothing has confirmed the contents in this run.
// If lists are denied too, as for a deleted custom resource, the connection counts as lost.
func (s *session) watchDenied(ctx context.Context, err error) outcome {
	if s.guards.comparing && !s.r.Status().ListOnly { // without a comparison, a probe or a list has been answered
		if _, err := s.guards.probe(ctx); err != nil {
			return s.lose(ctx, err)
		}
	}
	if !s.disconnect(ctx, err) {
		return outcome{Kind: stop}
	}
	s.showListOnly(true)
	now := s.o.Clock.Now()
	switch r := &s.watching.refusals; {
	case r.listAt.IsZero() && s.served:
		r.listAt = now.Add(listOnlyWait + rand.N(listOnlyWait) + rand.N(s.o.RelistSpread+1))
	case !now.Before(r.listAt):
		return outcome{Kind: mustList, Reason: ReasonListOnly}
	}
	if s.cur.RV == "" || s.cur.RV == "0" {
		return outcome{Kind: denied, Reason: ReasonListOnly} // without a resourceVersion the watch cannot be retried
	}
	return outcome{Kind: denied}
}

// unwatched reports whether the list has no folded watch because the server does not serve it.
func (l *list) unwatched() bool {
	return l.reason == ReasonListOnly || request.Denied(l.tail.dead) || request.Rejected(l.tail.dead)
}

// unfinished aborts a list that cannot end without a watch. If it was by metadata and the resource cannot be watched, a
// list of whole objects follows at once.
func (l *list) unfinished(ctx context.Context) outcome {
	if l.unwatched() && l.byMetadata && !l.s.lists.busy {
		l.s.lists.busy = true
		return outcome{Kind: mustList, Reason: l.reason}
	}
	if l.reason != ReasonListOnly {
		return l.again(l.tail.dead) // the error of the watch, which tail.lost has reported
	}
	err := l.s.conn.describe("failed to list", l.tail.dead)
	l.s.conn.report(ctx, err)
	return l.again(err)
}

// holds records that the watch has sent something, or that the server is at its resourceVersion.
func (s *session) holds(st *stream) {
	st.holds(&s.r.board)
	s.watching.refusals = refusals{}
}

// showListOnly sets Status.ListOnly.
func (s *session) showListOnly(is bool) { s.r.board.update(func(st *Status) { st.ListOnly = is }) }

// untilList returns the wait d in the state Degraded, but not beyond the list that is due because watches are denied.
// Without a resourceVersion to retry from, it returns the time until that list.
func (s *session) untilList(d time.Duration) time.Duration {
	rest := s.watching.refusals.listAt.Sub(s.o.Clock.Now())
	switch {
	case s.pos.State != Degraded || rest <= 0:
		return d
	case s.pos.Reason == ReasonListOnly:
		return rest
	}
	return min(d, rest)
}
