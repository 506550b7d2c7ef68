package reflector

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/util/watchlist"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector/internal/gate"
	"github.com/larder-dev/larder/reflector/internal/history"
	"github.com/larder-dev/larder/reflector/internal/pace"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// session is one Run: everything that only its goroutine touches. It is the sink's only caller.
type session struct {
	r    *Reflector
	lw   request.Requests
	sink Sink
	o    Options

	pos    position
	cur    history.Progress
	newest history.Newest

	// stream is the open watch; nil if there is none.
	stream *stream
	// opening is a watch that a list began to open; it goes on as the stream.
	opening *opening
	// leftOut are the objects of Checkpoint.LeftOut that have not been looked up.
	leftOut []entry.ObjectRef
	// cutLookups counts how often in a row the look-up of the first of them was cut.
	cutLookups int
	// last is how the last watch ended, and endedAt when.
	last    ending
	endedAt time.Time
	// slow: the last guards took longer than their watch had.
	slow bool
	// fresh: nothing has been watched since the list, so the next watch is not a resume.
	fresh bool
	// resumes is where this run began; empty once that has been logged.
	resumes string
	// announced: Synced has been called since the last list, or since the connection was lost.
	announced bool
	// served: Synced has been called in this run.
	served bool
	// spread is set if the next wait is none for lastErr, but for others to be spread over this time with this one.
	spread time.Duration
	// live is Status.Live.
	live bool
	// bookmarks: the server has sent one in this run.
	bookmarks bool
	// quiet counts drains in a row that ended in order and silent; see drainedQuietly.
	quiet int

	backoff pace.Backoff
	// connecting is the slot to connect, nil if there is none, and listing that to list; see Options.Limiter.
	connecting *limiter.Slot
	listing    slot
	// guards hold the server against what we hold.
	guards *guards
	// gate decides what is delivered.
	gate *gate.Gate
	// untold: the stream stands at an event of an object of another shard, and the sink, which hears of that with the next
	// bookmark or event, has not been told.
	untold bool
	// lastErr is the error that the next Backoff or Degraded waits for.
	lastErr error
	// lastList is when the last list ended.
	lastList time.Time
	// limit is that of the next page, and metadataLimit of one by metadata. noMetadata: lists by metadata do not work
	// here.
	limit, metadataLimit pace.Limit
	noMetadata           bool
	// patience and silence are what the link needs where it is thin.
	patience pace.Patience
	silence  pace.Silence
	// watchLists: the ListerWatcher and the server can send a list as a watch, as far as is known.
	watchLists bool
	// unlimited: the next list is to come as a watch that has hours, since the server cuts the smallest page. hopeless
	// counts the pages that show it.
	unlimited bool
	hopeless  int
	// sinkErr is why the sink made us stop.
	sinkErr error
}

// ending is how a watch ended, which says how far the server we reach next can be taken for the one we left.
type ending string

const (
	// lost: with an error, or before its time, or there was none yet. The server may be another one, or restored.
	lost ending = ""
	// timedOut: in order, at its own time-out.
	timedOut ending = "timedOut"
	// drainedOut: the same for a watch with the short time-out of a drain.
	drainedOut ending = "drainedOut"
)

func newSession(r *Reflector) *session {
	s := &session{
		gate: gate.New(gate.Options{
			ExpectedType: r.o.ExpectedType, Admit: r.o.Admit, Shard: r.o.Shard, Clock: r.o.Clock, Say: r.board.passedBy,
		}),
		r: r, lw: request.Of(r.lw), sink: r.sink, o: r.o, pos: position{State: Restore}, limit: pace.NewLimit(r.o.PageSize),
		metadataLimit: pace.NewLimit(r.o.PageSize),
		watchLists:    !watchlist.DoesClientNotSupportWatchListSemantics(r.lw),
	}
	s.guards = newGuards(s)
	s.listing.l, s.listing.down = r.o.Limiter, s.showDown
	return s
}

// run drives the machine until it has stopped.
func (s *session) run(ctx context.Context) error {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "reflector", s.o.Name)
	ctx = klog.NewContext(ctx, logger)
	defer s.connected()
	defer s.closeStream()
	for s.pos.State != Stopped {
		s.r.board.update(func(st *Status) { st.State = s.pos.State })
		o := s.enter(ctx)
		if ctx.Err() != nil {
			o = outcome{Kind: stop}
		}
		was := s.pos
		s.pos = next(s.pos, o)
		if s.pos.Reason.Lasts() && s.pos.Reason != was.Reason {
			if err := s.sink.MustList(ctx, s.pos.Reason); err != nil {
				s.sinkErr = err
				break
			}
		}
		logger.V(4).Info("Reflector moved on", "from", was.State, "outcome", o.Kind, "to", s.pos.State, "listDue",
			s.pos.Reason)
		if s.pos.State != Drain && s.pos.State != Watch {
			s.closeStream()
		}
		if s.pos.State == Backoff || s.pos.State == Degraded {
			s.connected()
		}
		if s.outOfTouch() {
			s.setLive(false)
		}
	}
	s.r.board.update(func(st *Status) { st.State = Stopped })
	if ctx.Err() != nil {
		return nil
	}
	return s.sinkErr
}

// enter does what the state is for and returns what came of it.
func (s *session) enter(ctx context.Context) outcome {
	if s.pos.State != Restore {
		if o := s.asked(); o.Kind != "" {
			return o
		}
	}
	switch s.pos.State {
	case Restore:
		return s.restore(ctx)
	case Verify:
		if !s.connect(ctx) {
			return outcome{Kind: stop}
		}
		return s.fetchLeftOut(ctx, s.guards.verify(ctx))
	case Drain, Watch:
		return s.watch(ctx)
	case Relist:
		return s.relistInSlot(ctx)
	case Backoff, Degraded:
		return s.wait(ctx)
	case Stopped:
	}
	return outcome{Kind: stop}
}

// asked takes up the list that Relist or Contradicted asked for; the outcome is empty if neither did. What a server's
// events show it may show again and again, so a list for that is spaced, unless one is due or waited for already.
func (s *session) asked() outcome {
	reason := s.r.takeAsked()
	waits := s.pos.Reason != "" || s.pos.State == Backoff || s.pos.State == Degraded
	switch {
	case reason == "":
		return outcome{}
	case reason == ReasonRewound && !waits:
		return s.listFor(reason)
	}
	s.spread = 0
	return outcome{Kind: mustList, Reason: reason}
}

// outOfTouch reports whether the state says that something may have been missed. Verify does not: what follows a watch
// that ended in order begins there.
func (s *session) outOfTouch() bool {
	switch s.pos.State {
	case Backoff:
		return s.spread == 0 || s.pos.Reason != "" // a moment between two watches, the first of which ended well, is none
	case Degraded, Relist, Stopped:
		return true
	case Drain:
		return s.last == lost
	}
	return false
}

// setLive tells everybody whether we are live, if that is news.
func (s *session) setLive(live bool) {
	if s.live == live {
		return
	}
	s.live = live
	s.r.board.update(func(st *Status) { st.Live = live })
	if s.o.OnLive != nil {
		s.o.OnLive(live)
	}
}

// restore asks the sink what it holds.
func (s *session) restore(ctx context.Context) outcome {
	cp, err := s.sink.Checkpoint(ctx)
	if err != nil {
		return s.sinkClosed(err)
	}
	reason := cp.Relist
	switch {
	case reason != "":
	case cp.ResourceVersion == "":
		reason = ReasonCold
	case !entry.ComparableRV(cp.ResourceVersion):
		reason = ReasonNotResumable
	}
	if cp.ResourceVersion != "" {
		s.moveTo(history.Progress{RV: cp.ResourceVersion})
	}
	for _, ref := range cp.Newest {
		s.newest.Put(ref) // a list is held against them, too
	}
	if reason != "" {
		return outcome{Kind: mustList, Reason: reason}
	}
	s.resumes, s.leftOut = cp.ResourceVersion, cp.LeftOut
	s.guards.compared = cp.Large || len(cp.LeftOut) > 0 // what was left out is not held, so nothing can be the same
	return outcome{Kind: resumable}
}

// wait sits out the back-off of lastErr.
func (s *session) wait(ctx context.Context) outcome {
	var d time.Duration
	var recovered, asked <-chan struct{}
	if s.spread > 0 {
		d, asked, s.spread = rand.N(s.spread), s.r.wake, 0
		if s.pos.Reason != "" && s.listedRecently() {
			d += s.backoff.Next(0)
		}
	} else {
		d, recovered = s.backOff()
	}
	timer := s.o.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return outcome{Kind: stop}
	case <-timer.C():
	case <-recovered:
	case <-asked:
		return s.asked() // after a shorter wait
	}
	return outcome{Kind: waited}
}

// lose notes an error that ended a connection, and returns failed or denied.
func (s *session) lose(ctx context.Context, err error) outcome {
	if ctx.Err() != nil {
		return outcome{Kind: stop}
	}
	s.report(ctx, err)
	s.tellLimiter(err)
	s.lastErr, s.last, s.endedAt = err, lost, s.o.Clock.Now()
	s.r.lost()
	if isDenied(err) {
		return outcome{Kind: denied}
	}
	return outcome{Kind: failed}
}

// report tells everybody about an error of the connection. While a request is overdue we are not live either: it may be
// the one that asks whether the connection is.
func (s *session) report(ctx context.Context, err error) {
	klog.FromContext(ctx).V(2).Info("Connection lost", "err", err, "resourceVersion", s.cur.RV)
	s.r.board.update(func(st *Status) { st.Err = err })
	s.setLive(false)
	if s.o.OnError != nil {
		s.o.OnError(ctx, err)
	}
}

// sinkClosed stops the machine.
func (s *session) sinkClosed(err error) outcome {
	s.sinkErr = err
	return outcome{Kind: stop}
}

// healthy clears the error: the connection does what it is for.
func (s *session) healthy() {
	s.r.board.update(func(st *Status) { st.Err = nil })
	if s.announced && s.pos.State == Watch {
		s.setLive(true)
	}
}

// heard notes a sign of life from the server.
func (s *session) heard() {
	s.o.Limiter.Heard()
	now := s.o.Clock.Now()
	s.r.board.update(func(st *Status) { st.LastContact = now })
	if s.o.OnContact != nil {
		s.o.OnContact()
	}
}

// moveTo publishes a new place in the stream.
func (s *session) moveTo(c history.Progress) {
	s.cur = c
	s.r.board.update(func(st *Status) { st.ResourceVersion = c.RV })
}

// synced tells the sink that everything has been delivered, once per connection.
func (s *session) synced(ctx context.Context) error {
	s.guards.target, s.quiet = "", 0
	if s.announced {
		s.setLive(true) // a request was overdue, or it was a list that ended, and now there is a watch
		return nil
	}
	if s.resumes != "" && s.lastList.IsZero() {
		klog.FromContext(ctx).Info("Resumed", "resourceVersion", s.resumes, "now", s.cur.RV)
	}
	s.resumes = ""
	if err := s.sink.Synced(ctx); err != nil {
		return err
	}
	s.announced, s.served = true, true
	if s.pos.State != Relist { // else the watch is yet to be opened, or to show that it is good
		s.setLive(true)
	}
	return nil
}

// listFor returns mustList, after a wait if there was a list a moment ago: a server whose history is
// always too short must not be listed in a circle.
func (s *session) listFor(reason Reason) outcome {
	s.lastErr = nil
	if reason == ReasonExpired && s.served {
		s.spread = s.o.RelistSpread
	}
	return outcome{Kind: mustList, Reason: reason, Wait: s.spread > 0 || s.listedRecently()}
}

// listedRecently reports that the next list has to wait, whatever for.
func (s *session) listedRecently() bool {
	return !s.lastList.IsZero() && s.o.Clock.Since(s.lastList) < pace.Health
}

// tells returns what to do with the error of a call that is overdue: it is reported, and waited for all the same, but
// holds up no other reflector. For the calls that the session's own goroutine waits for.
func (s *session) tells(ctx context.Context, what string) func(error) {
	return func(err error) {
		s.report(ctx, s.describe(what, err))
		s.yield()
	}
}
