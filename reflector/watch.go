package reflector

import (
	"context"
	"math/rand/v2"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/limiter"
)

type watching struct {
	stream *stream
	// opening is the watch request in progress that a list has started; nil if there is none.
	opening *opening
	// fresh is true between a list and the next watch, which starts from the list and so does not count as a resume.
	fresh     bool
	bookmarks bool
	// quiet counts consecutive short watches of the state Drain that ended in order and without a message.
	quiet    int
	silence  silence
	refusals refusals
	// badAt is the resourceVersion of the last watch that delivered an event that cannot be decoded; "" without one.
	badAt   string
	end     ending
	endedAt time.Time
	// brokeAt is when the connection was last lost, a watch ended, or a list became due, by the machine's clock.
	brokeAt time.Time
}

// ending is how a watch ended. It determines how many objects the guards look up at the next connect.
type ending string

const (
	// lost: the watch ended with an error or before its time-out, or there was no watch yet. The next server may be
	// another server, or a restored one.
	lost ending = ""
	// timedOut: the watch ended without an error, at its own time-out.
	timedOut ending = "timedOut"
	// drainedOut: a watch of the state Drain ended without an error, at its three-second time-out.
	drainedOut ending = "drainedOut"
)

func (s *session) watch(ctx context.Context) outcome {
	if s.watching.stream == nil {
		st, err := s.openStream(ctx)
		if err != nil {
			return s.watchFailed(ctx, err)
		}
		s.watching.stream = st
		s.accepted(st)
		if o := s.guards.guard(ctx); o.Kind != "" {
			return o
		}
		s.conn.connected()
		// Options.Compare has found no difference, so no event is awaited.
		if s.pos.State == Drain && s.guards.target == "" {
			return s.drained(ctx)
		}
	}
	if s.pos.State == Watch {
		if o := s.fetchLeftOut(ctx); o.Kind != "" {
			return o
		}
		if err := s.synced(ctx); err != nil {
			return s.sinkClosed(err)
		}
	}
	return s.consume(ctx)
}

func (s *session) openStream(ctx context.Context) (*stream, error) {
	if o := s.watching.opening; o != nil {
		s.watching.opening = nil
		return o.wait(func(err error) { s.conn.report(ctx, err) })
	}
	timeout := watchTimeout()
	if s.pos.State == Drain && !s.guards.comparing {
		timeout = drainTimeout
	}
	return s.conn.open(ctx, s.cur.RV, timeout, s.conn.overdueReporter(ctx, "watch"))
}

func (s *session) consume(ctx context.Context) outcome {
	st := s.watching.stream
	silence := s.o.Clock.NewTimer(s.silenceLimit())
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return outcome{Kind: stop}
		case <-s.r.wake:
			if o := s.asked(); o.Kind != "" {
				return o
			}
		case ev, ok := <-st.w.ResultChan():
			if !ok {
				return s.streamEnded(ctx)
			}
			if o := s.handle(ctx, ev); o.Kind != "" {
				return o
			}
			// The watch was not read while the Sink was blocked, so the watch's silence counts from now.
			st.waitBegun = s.o.Clock.Now()
		case <-silence.C():
			limit := s.silenceLimit()
			rest := limit - s.o.Clock.Since(st.waitBegun)
			if rest <= 0 && s.guards.exact && s.pos.State == Drain {
				return s.guards.recheck(ctx)
			}
			if rest <= 0 {
				if o := s.silent(ctx); o.Kind != "" {
					s.watching.silence.Closed(s.cur.RV)
					return o
				}
				st.waitBegun, rest = s.o.Clock.Now(), limit
			}
			silence.Reset(rest)
		}
	}
}

// silenceLimit returns how long the open watch may deliver nothing before the server is probed.
func (s *session) silenceLimit() time.Duration {
	if s.guards.exact && s.pos.State == Drain {
		return explainTime
	}
	return s.watching.silence.Limit(s.watching.stream.draining(), s.cur.RV)
}

func (s *session) handle(ctx context.Context, ev watch.Event) outcome {
	if ev.Type == watch.Error {
		return s.watchFailed(ctx, s.conn.describe("watch", eventError(ev)))
	}
	s.message(s.watching.stream)
	if s.pos.State == Drain && s.unexplained(ev) {
		return s.drained(ctx)
	}
	if s.contradicts(ev) {
		klog.FromContext(ctx).Info("An event is about another object than the one that we hold under its name: "+rewound,
			"key", identityOf(ev).Key, "resourceVersion", eventRV(ev))
		return s.listFor(ReasonRewound)
	}
	if err := s.deliver(ctx, ev); err != nil {
		return s.sinkClosed(err)
	}
	if s.pos.State != Drain || !s.guards.caughtUp() {
		return outcome{}
	}
	return s.drained(ctx)
}

// unexplained reports whether the watch has passed the target resourceVersion at ev although awaited events are
// missing: the server was restored from a backup. ev is then not delivered, so that no resourceVersion of another
// history is stored. An event at the target itself proves nothing, since another event may have the same
// resourceVersion.
func (s *session) unexplained(ev watch.Event) bool {
	rv := eventRV(ev)
	if len(s.guards.awaited) == 0 || !entry.ComparableRV(rv) {
		return false
	}
	return below(s.guards.target, rv) || ev.Type == watch.Bookmark && rv == s.guards.target
}

// contradicts reports whether ev contradicts one of the newest stored objects: ev's object has another UID, but no
// event has deleted the stored object. Events about objects that are not stored (of other shards, types or scopes) do
// not count.
func (s *session) contradicts(ev watch.Event) bool {
	if ev.Type == watch.Bookmark {
		return false
	}
	ref := identityOf(ev)
	held, ok := s.newest.Find(ref.Key)
	if d, isAwaited := s.guards.awaited[ref.Key]; isAwaited {
		held, ok = d.Held, d.Held.Key != ""
	}
	if !ok || ref.UID == "" || held.UID == "" || ref.UID == held.UID || !entry.ComparableRV(ref.ResourceVersion) {
		return false
	}
	if ours, err := s.o.Shard.Matches(ev.Object); !ours || err != nil || s.o.Admit != nil && s.o.Admit(ev.Object) != nil {
		return false
	}
	return s.r.firstContradiction()
}

func identityOf(ev watch.Event) entry.ObjectRef {
	ref, _ := identify(ev.Object)
	return ref
}

// drained ends the state Drain: the watch has reached its target. If awaited events are still missing, the server was
// restored from a backup, and a list follows.
func (s *session) drained(ctx context.Context) outcome {
	if len(s.guards.awaited) > 0 {
		klog.FromContext(ctx).Info("The server has changed objects without an event: "+rewound, "objects",
			len(s.guards.awaited),
			"resourceVersion", s.cur.RV, "server", s.guards.target)
		return s.listFor(ReasonRewound)
	}
	if s.guards.exact {
		s.guards.target = "" // all awaited events have arrived, so the watch need not reach the target resourceVersion
	}
	if o := s.fetchLeftOut(ctx); o.Kind != "" {
		return o
	}
	s.conn.contact(s.o.Clock.Now())
	if err := s.synced(ctx); err != nil {
		return s.sinkClosed(err)
	}
	return outcome{Kind: drained}
}

// watchFailed returns the outcome of an error of a watch. A list is due if the server has lost the history or is
// behind, or if an event cannot be decoded. If the resource cannot be watched, or its watches are refused, a list
// follows later. Otherwise a back-off follows.
func (s *session) watchFailed(ctx context.Context, err error) outcome {
	reason := Reason("")
	switch {
	case ctx.Err() != nil:
		return outcome{Kind: stop}
	case isExpired(err):
		reason = ReasonExpired
	case isTooLarge(err):
		reason = ReasonAhead
	case s.isBadEventAt(err, s.cur.RV):
		reason = ReasonBadEvent
	case isForbidden(err):
		return s.watchDenied(ctx, err)
	default:
		return s.watchLost(ctx, err)
	}
	s.conn.report(ctx, err)
	return s.listFor(reason)
}

// isBadEventAt reports whether the watch from rv has met an event that cannot be decoded, for the second time. After
// the first time the watch is repeated, since the answer may have been garbled in transit.
func (s *session) isBadEventAt(err error, rv string) bool {
	if !isUndecodable(err) {
		return false
	}
	again := s.watching.badAt == rv
	s.watching.badAt = rv
	return again
}

func (s *session) streamEnded(ctx context.Context) outcome {
	s.watching.endedAt, s.watching.brokeAt = s.o.Clock.Now(), time.Now()
	full, lively := s.watching.stream.end(s.watching.endedAt)
	if !full {
		s.o.Limiter.Ended()
	}
	if !lively {
		return s.lose(ctx, s.conn.describe("watch", ErrShortWatch))
	}
	s.holds(s.watching.stream)
	switch {
	case !full:
		s.watching.end = lost
	case s.watching.stream.timeout == drainTimeout:
		s.watching.end = drainedOut
	default:
		s.watching.end = timedOut
	}
	if s.pos.State == Drain && full && s.drainedQuietly() {
		if o := s.drained(ctx); o.Kind != drained {
			return o
		}
	}
	if !full {
		// The server may have ended the watches of a whole fleet, so the next watch request waits a random time. The
		// end does not count as a failure for the back-off.
		s.spread, s.conn.lastErr = limiter.BackoffBase, nil
		return outcome{Kind: failed}
	}
	return outcome{Kind: ended}
}

// quietDrains is how many consecutive silent watches of the state Drain end it without a proof (drainedQuietly).
const quietDrains = 4

// drainedQuietly ends the state Drain for servers that send no bookmarks and whose resourceVersion changes with other
// resources: nothing can prove that the target resourceVersion is reached. It returns true after quietDrains watches
// that lived to their time-out and sent nothing.
func (s *session) drainedQuietly() bool {
	if s.watching.bookmarks || s.watching.stream.messages > 0 {
		s.watching.quiet = 0
		return false
	}
	s.watching.quiet++
	return s.watching.quiet >= quietDrains
}

// silent probes the server because the watch is silent. If the server's resourceVersion has changed, the watch counts
// as dead, or, if it never sent a bookmark, is opened again without an error. Otherwise healthy clears the error of an
// overdue probe.
func (s *session) silent(ctx context.Context) outcome {
	if s.pos.State == Drain {
		return s.lose(ctx, s.conn.describe("watch", ErrSilent))
	}
	rv, err := s.guards.probe(ctx)
	switch {
	case err != nil:
		return s.lose(ctx, err)
	case rv == s.cur.RV:
		s.healthy()
		s.holds(s.watching.stream)
		return outcome{}
	case s.watching.stream.bookmarks > 0:
		return s.lose(ctx, s.conn.describe("watch", ErrSilent))
	}
	s.watching.end = lost
	return outcome{Kind: ended}
}

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

func (st *stream) draining() bool { return st.timeout == drainTimeout }

// watchTimeout returns a random time-out for a watch, so that a fleet's watches do not end together. The short watches
// of the state Drain have drainTimeout instead.
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
// lived for two minutes (healthyWatch).
func (s *session) closeStream() {
	s.watching.opening.giveUp(context.Background())
	s.watching.opening = nil
	if s.watching.stream == nil {
		return
	}
	st := s.watching.stream
	s.watching.stream = nil
	if s.o.Clock.Since(st.begun) >= healthyWatch {
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
