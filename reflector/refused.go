package reflector

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"k8s.io/klog/v2"
)

// listOnlyWait is the minimum time between two lists of a resource that cannot be watched. The maximum is twice as
// long, without Options.RelistSpread. client-go lists as often.
const listOnlyWait = 30 * time.Second

var errListOnly = errors.New("the objects changed during the list, and the resource cannot be watched")

// refusals counts how often the server has refused one kind of request: the watch, since the last list or the last
// working watch; or the continue token of a list.
type refusals struct {
	// listAt is when the next list of a resource with denied watches (403, 404, 405) is due; zero if none is due.
	listAt time.Time
	// from is the resourceVersion or the continue token that the server has refused with an error without a known
	// remedy (rejected). n counts these refusals, and first is the time of the first refusal.
	from  string
	n     int
	first time.Time
}

const (
	// enoughRefusals is how many watches from one resourceVersion the server must refuse before a list may follow;
	// refusedTime is the minimum duration of these refusals. A server that is starting or being repaired gives odd
	// answers too, but not for long.
	enoughRefusals = 3
	refusedTime    = 10 * time.Second
)

// again counts a refusal of rv, which is a resourceVersion or a continue token. It returns true after enoughRefusals of
// the same rv over refusedTime. Lost connections between two refusals neither count nor reset the count.
func (r *refusals) again(rv string, now time.Time) bool {
	if r.n == 0 || r.from != rv {
		r.from, r.n, r.first = rv, 0, now
	}
	r.n++
	return r.n >= enoughRefusals && now.Sub(r.first) >= refusedTime
}

func (s *session) watchLost(ctx context.Context, err error) outcome {
	if o := s.lose(ctx, err); o.Kind != failed {
		return o
	}
	if rejected(err) && s.watching.refusals.again(s.cur.RV, s.o.Clock.Now()) {
		return outcome{Kind: refused}
	}
	return outcome{Kind: failed}
}

// ifMovedOn is the state Refused. Servers without a watch cache (kine, dqlite) answer a compacted resourceVersion with
// 500 and other codes. The reflector lists if a probe shows that the server's resourceVersion has changed, or if this
// run has not called Sink.Synced yet. Otherwise it retries the watch.
func (s *session) ifMovedOn(ctx context.Context) outcome {
	if !s.connect(ctx) {
		return outcome{Kind: stop}
	}
	why := s.conn.lastErr
	rv, err := s.guards.probe(ctx)
	switch {
	case err != nil:
		return s.lose(ctx, err)
	case below(rv, s.cur.RV):
		return s.guards.ahead(ctx, rv)
	case rv == s.cur.RV && s.served:
		return outcome{Kind: failed}
	}
	klog.FromContext(ctx).Info("The server refuses again and again to watch from the resourceVersion that we hold: "+
		"its history is taken for lost", "resourceVersion", s.cur.RV, "server", rv, "err", why)
	o := s.listFor(ReasonExpired)
	// Without RelistSpread the list starts now: the refusals have already taken ten seconds.
	o.Wait = s.spread > 0
	return o
}

// watchDenied handles a watch request that is answered with 403, 404 or 405. Permissions and CRDs are often applied a
// moment later, so the watch is retried after the back-off. The stored objects must not grow stale meanwhile, so after
// 30 to 60 seconds the resource is listed, and the watch is retried. The list is due at once if the server has not
// confirmed the stored objects in this run. If lists are denied too, as for a deleted custom resource, the connection
// counts as lost.
func (s *session) watchDenied(ctx context.Context, err error) outcome {
	// Without Options.Compare, a probe or a list has been answered before the watch, so the server works.
	if s.guards.comparing && !s.r.Status().ListOnly {
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
		// The watch cannot be retried without a resourceVersion to start from.
		return outcome{Kind: denied, Reason: ReasonListOnly}
	}
	return outcome{Kind: denied}
}

// unwatched reports whether this list has no watch beside it because the server refuses to watch the resource.
func (l *list) unwatched() bool {
	return l.reason == ReasonListOnly || isForbidden(l.tail.dead) || rejected(l.tail.dead)
}

// unfinished aborts a list that cannot end without a watch beside it. If the list was of metadata, and the server
// refuses to watch the resource, a list of whole objects follows at once.
func (l *list) unfinished(ctx context.Context) outcome {
	if l.unwatched() && l.byMetadata && !l.s.lists.busy {
		l.s.lists.busy = true
		return outcome{Kind: mustList, Reason: l.reason}
	}
	if l.reason != ReasonListOnly {
		return l.again(l.tail.dead) // Status.Err stays the error of the watch, which tail.lost has reported
	}
	err := l.s.conn.describe("failed to list", l.tail.dead)
	l.s.conn.report(ctx, err)
	return l.again(err)
}

// holds counts the watch as working: it has delivered a message, or the server is at the watch's resourceVersion.
func (s *session) holds(st *stream) {
	st.holds(&s.r.board)
	s.watching.refusals = refusals{}
}

func (s *session) showListOnly(is bool) { s.r.board.update(func(st *Status) { st.ListOnly = is }) }

// untilList shortens the wait d before a retry of a denied watch to the time until the next list. Without a
// resourceVersion to watch from, it returns the time until that list.
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
