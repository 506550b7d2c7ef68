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

// session is the state of one Run. Only Run's goroutine touches it, and only that goroutine calls the sink.
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
	// opening is a watch that a list has begun to open; it becomes the stream. nil if there is none.
	opening *opening
	// leftOut lists the objects of Checkpoint.LeftOut that have not been looked up yet.
	leftOut []entry.ObjectRef
	// cutLookups counts how often in a row the answer about leftOut[0] was cut off.
	cutLookups int
	// last is how the last watch ended, and endedAt when.
	last    ending
	endedAt time.Time
	// slow is true if the last guards took longer than their watch's time-out.
	slow bool
	// fresh is true between a list and the next watch, which is not a resume then.
	fresh bool
	// resumes is the resourceVersion at which this run resumed; "" after the first Synced, which logs it.
	resumes string
	// announced is true if Synced has been called since the last list and since the connection was lost.
	announced bool
	// served is true if Synced has been called in this run.
	served bool
	// spread is the window over which the next wait is spread at random; 0 if the next wait is the back-off for lastErr.
	spread time.Duration
	// live is Status.Live.
	live bool
	// bookmarks is true if the server has sent a bookmark in this run.
	bookmarks bool
	// quiet counts drains in a row that ended in order and without a message; see drainedQuietly.
	quiet int

	backoff pace.Backoff
	// connecting is the slot to connect; nil if the session has none. listing is the slot to list. See Options.Limiter.
	connecting *limiter.Slot
	listing    slot
	// guards compare the server with the sink's contents at every connect.
	guards *guards
	// gate decides which objects are delivered.
	gate *gate.Gate
	// untold is true if the stream has passed an object of another shard and the sink has not been given that
	// resourceVersion yet. The next bookmark or event brings it.
	untold bool
	// lastErr is the error that the next Backoff or Degraded waits for.
	lastErr error
	// lastList is when the last list ended.
	lastList time.Time
	// limit is the limit of the next page, metadataLimit that of the next page by metadata. noMetadata is true once the
	// server has refused lists by metadata.
	limit, metadataLimit pace.Limit
	noMetadata           bool
	// patience and silence adapt time-outs to a thin link.
	patience pace.Patience
	silence  pace.Silence
	// watchLists is false once it is known that the ListerWatcher or the server cannot send a list as a watch.
	watchLists bool
	// unlimited requests the next list as a watch of hours, because the server cuts off the smallest page. hopeless
	// counts the pages in a row that were cut off so.
	unlimited bool
	hopeless  int
	// sinkErr is the error with which the sink ended the run.
	sinkErr error
}

// ending is how a watch ended. It tells how likely the next server is the same one, with the same history.
type ending string

const (
	// lost: with an error, or before its time-out, or there was no watch yet. The server may be another one, or restored.
	lost ending = ""
	// timedOut: without an error, at its own time-out.
	timedOut ending = "timedOut"
	// drainedOut: as timedOut, for a watch with the short time-out of a drain.
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

// run drives the state machine until it is Stopped. It returns nil if ctx ended, and else the sink's error.
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

// enter runs the current state and returns its outcome.
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

// asked returns the outcome for a list that Relist or Contradicted requested; it is empty if neither did. A server may
// send contradicting events again and again, so a list for them may have to wait, unless a list or wait is due anyway.
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

// outOfTouch reports whether events may have been missed in this state. Verify is not such a state: it also follows a
// watch that ended in order.
func (s *session) outOfTouch() bool {
	switch s.pos.State {
	case Backoff:
		return s.spread == 0 || s.pos.Reason != "" // else it is the short wait after a watch that ended without an error
	case Degraded, Relist, Stopped:
		return true
	case Drain:
		return s.last == lost
	}
	return false
}

// setLive updates Status.Live and calls Options.OnLive if live has changed.
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

// restore is the state Restore: it reads the sink's Checkpoint.
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
		s.newest.Put(ref) // a list is compared with them, too
	}
	if reason != "" {
		return outcome{Kind: mustList, Reason: reason}
	}
	s.resumes, s.leftOut = cp.ResourceVersion, cp.LeftOut
	s.guards.compared = cp.Large || len(cp.LeftOut) > 0 // what was left out is not held, so nothing can be the same
	return outcome{Kind: resumable}
}

// wait waits for the back-off of lastErr, or for a random part of spread.
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

// lose records and reports an error that ended a connection, and returns failed or denied.
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

// report sets Status.Err, clears Status.Live and calls Options.OnError. It is called for an overdue request too, which
// may be the one that checks whether the connection works.
func (s *session) report(ctx context.Context, err error) {
	klog.FromContext(ctx).V(2).Info("Connection lost", "err", err, "resourceVersion", s.cur.RV)
	s.r.board.update(func(st *Status) { st.Err = err })
	s.setLive(false)
	if s.o.OnError != nil {
		s.o.OnError(ctx, err)
	}
}

// sinkClosed stops the machine with the sink's error.
func (s *session) sinkClosed(err error) outcome {
	s.sinkErr = err
	return outcome{Kind: stop}
}

// healthy clears Status.Err, because the connection works.
func (s *session) healthy() {
	s.r.board.update(func(st *Status) { st.Err = nil })
	if s.announced && s.pos.State == Watch {
		s.setLive(true)
	}
}

// heard records that the server has answered or sent something.
func (s *session) heard() {
	s.o.Limiter.Heard()
	now := s.o.Clock.Now()
	s.r.board.update(func(st *Status) { st.LastContact = now })
	if s.o.OnContact != nil {
		s.o.OnContact()
	}
}

// moveTo sets how far the stream has been delivered, and publishes it in the Status.
func (s *session) moveTo(c history.Progress) {
	s.cur = c
	s.r.board.update(func(st *Status) { st.ResourceVersion = c.RV })
}

// synced calls Sink.Synced, once per list or lost connection. An error is the sink's.
func (s *session) synced(ctx context.Context) error {
	s.guards.target, s.quiet = "", 0
	if s.announced {
		s.setLive(true) // it is false after an overdue request, and between a list and its watch
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
	if s.pos.State != Relist { // else the watch is not open yet
		s.setLive(true)
	}
	return nil
}

// listFor returns mustList. The list has to wait if the last one was a moment ago, so that a server whose history is
// always too short does not cause one list after another.
func (s *session) listFor(reason Reason) outcome {
	s.lastErr = nil
	if reason == ReasonExpired && s.served {
		s.spread = s.o.RelistSpread
	}
	return outcome{Kind: mustList, Reason: reason, Wait: s.spread > 0 || s.listedRecently()}
}

// listedRecently reports whether the last list ended less than pace.Health ago.
func (s *session) listedRecently() bool {
	return !s.lastList.IsZero() && s.o.Clock.Since(s.lastList) < pace.Health
}

// tells returns the callback for an overdue call that the session's goroutine waits for. It reports the error and gives
// back the limiter slots, so that the call does not hold up other reflectors.
func (s *session) tells(ctx context.Context, what string) func(error) {
	return func(err error) {
		s.report(ctx, s.describe(what, err))
		s.yield()
	}
}
