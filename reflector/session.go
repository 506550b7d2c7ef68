package reflector

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// session is the state of one call of Reflector.Run. Only Run's goroutine uses a session and calls the Sink.
type session struct {
	r    *Reflector
	sink Sink
	o    Options

	pos    position
	cur    progress
	newest newest

	conn     *connection
	watching watching
	lists    lists
	// leftOut lists the objects of Checkpoint.LeftOut that still have to be fetched and delivered. cuts counts how
	// often in a row the answer for the first of these objects broke off.
	leftOut []entry.ObjectRef
	cuts    int
	seeding seeding
	guards  *guards
	gate    *gate

	// resumes is the resourceVersion at which this run resumed its first watch, for the log message at the first
	// Synced.
	resumes string
	// announced is true if Sink.Synced has been called since the last list and since the last loss of the connection.
	announced bool
	served    bool
	// spread is the upper bound of the next wait, which is random; 0 if the next wait is a back-off.
	spread time.Duration
	// unreported is true after an event of another shard, until its resourceVersion is delivered to the Sink.
	unreported bool
	sinkErr    error
}

func newSession(r *Reflector) *session {
	s := &session{
		r: r, sink: r.sink, o: r.o, pos: position{State: Restore}, conn: newConnection(r), lists: newLists(r),
		gate: newGate(gateOptions{
			ExpectedType: r.o.ExpectedType, Admit: r.o.Admit, Shard: r.o.Shard, Clock: r.o.Clock, OnDrop: r.board.setDropped,
		}),
	}
	s.guards = newGuards(s)
	return s
}

func (s *session) run(ctx context.Context) error {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "reflector", s.o.Name)
	ctx = klog.NewContext(ctx, logger)
	defer s.conn.connected()
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
			s.conn.connected()
		}
		if s.outOfTouch() {
			s.conn.setLive(false)
		}
	}
	s.r.board.update(func(st *Status) { st.State = Stopped })
	if ctx.Err() != nil {
		return nil
	}
	return s.sinkErr
}

func (s *session) enter(ctx context.Context) outcome {
	if s.pos.State != Restore {
		if o := s.asked(); o.Kind != "" {
			return o
		}
	}
	switch s.pos.State {
	case Restore:
		o := s.restore(ctx)
		if o.Kind == mustList {
			if seeded := s.seed(ctx, o.Reason); seeded.Kind != "" {
				return seeded
			}
		}
		return o
	case Verify:
		if !s.connect(ctx) {
			return outcome{Kind: stop}
		}
		return s.guards.verify(ctx)
	case Drain, Watch:
		return s.watch(ctx)
	case Relist:
		return s.relistInSlot(ctx)
	case Refused:
		return s.ifMovedOn(ctx)
	case Backoff, Degraded:
		return s.wait(ctx)
	case Stopped:
	}
	return outcome{Kind: stop}
}

// asked returns the outcome for a list that Reflector.Relist or Reflector.Contradicted has requested; it is empty
// without a request. A server may send contradicting events repeatedly, so a list for Contradicted may have to wait,
// unless a list or a back-off is due anyway.
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

// outOfTouch reports whether events may have been missed in this state, because the connection is lost. It is false in
// the state Verify, which also follows a watch that ended in order.
func (s *session) outOfTouch() bool {
	switch s.pos.State {
	case Backoff: // the short wait after a watch that ended without an error has a spread and no due list
		return s.spread == 0 || s.pos.Reason != ""
	case Refused, Degraded, Relist, Stopped:
		return true
	case Drain:
		return s.watching.end == lost
	}
	return false
}

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
		s.moveTo(progressAt(cp.ResourceVersion))
	}
	for _, ref := range cp.Newest {
		s.newest.Put(ref) // the next list is compared with the newest stored objects, even if no watch is resumed
	}
	if reason != "" {
		return outcome{Kind: mustList, Reason: reason}
	}
	s.resumes, s.leftOut = cp.ResourceVersion, cp.LeftOut
	return outcome{Kind: resumable}
}

// wait waits in the states Backoff and Degraded: for a random part of spread, or for the back-off of repeated lists, or
// for the back-off after the last error.
func (s *session) wait(ctx context.Context) outcome {
	var d time.Duration
	var recovered, asked <-chan struct{}
	if s.spread > 0 {
		d, asked, s.spread = rand.N(s.spread), s.r.wake, 0
		if s.pos.Reason != "" && s.listedRecently() {
			d += s.lists.backoff.Next(0)
		}
	} else if s.pos.Reason != "" && s.conn.lastErr == nil {
		d = s.lists.backoff.Next(0)
	} else {
		d, recovered = s.conn.backOff()
		d = s.untilList(d)
	}
	timer := s.o.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return outcome{Kind: stop}
	case <-timer.C():
	case <-recovered:
	case <-asked:
		return s.asked() // the requested list may have to wait for a shorter time, or not at all
	}
	return outcome{Kind: waited}
}

// lose reports an error that ended a connection. The outcome is denied for a 403, 404 or 405, and failed otherwise.
func (s *session) lose(ctx context.Context, err error) outcome {
	switch {
	case !s.disconnect(ctx, err):
		return outcome{Kind: stop}
	case isDenied(err):
		s.showListOnly(false) // the server denies lists too, not only watches
		return outcome{Kind: denied}
	}
	return outcome{Kind: failed}
}

// disconnect reports an error that ended a connection to Options.OnError. It returns false if ctx has ended.
func (s *session) disconnect(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	s.conn.report(ctx, err)
	s.conn.reportToLimiter(err)
	s.conn.lastErr, s.watching.end = err, lost
	s.watching.endedAt, s.watching.brokeAt = s.o.Clock.Now(), time.Now()
	s.r.lost()
	return true
}

func (s *session) sinkClosed(err error) outcome {
	s.sinkErr = err
	return outcome{Kind: stop}
}

func (s *session) healthy() {
	s.r.board.update(func(st *Status) { st.Err = nil })
	if s.announced && s.pos.State == Watch {
		s.conn.setLive(true)
	}
}

// answered is called when the server has answered and is at resourceVersion rv. If rv is the newest delivered
// resourceVersion, the answer confirms the Sink's objects.
func (s *session) answered(rv string) {
	s.conn.received()
	if rv != "" && rv == s.cur.RV {
		s.conn.contact(s.o.Clock.Now())
	}
}

func (s *session) moveTo(c progress) {
	s.cur = c
	s.r.board.update(func(st *Status) { st.ResourceVersion = c.RV })
}

// synced calls Sink.Synced, unless it was called since the last list and since the connection was last lost.
func (s *session) synced(ctx context.Context) error {
	s.guards.target, s.watching.quiet = "", 0
	s.conn.works()
	if s.announced {
		s.conn.setLive(true) // Live is false if a request was overdue, or if the list's watch was not open yet
		return nil
	}
	if s.resumes != "" && s.lists.ended.IsZero() {
		klog.FromContext(ctx).Info("Resumed", "resourceVersion", s.resumes, "now", s.cur.RV)
	}
	s.resumes = ""
	if err := s.sink.Synced(ctx); err != nil {
		return err
	}
	s.announced, s.served = true, true
	if s.pos.State != Relist { // in the state Relist the watch is not open yet, so the connection is not live
		s.conn.setLive(true)
	}
	return nil
}

// listFor returns the outcome that a list is due for a reason. If the last list ended less than two minutes ago, a
// back-off precedes the list, so that a server with a very short history is not listed endlessly.
func (s *session) listFor(reason Reason) outcome {
	s.conn.lastErr, s.watching.brokeAt = nil, time.Now()
	if !s.listedRecently() {
		s.lists.backoff.Reset()
	}
	if reason == ReasonExpired && s.served {
		s.spread = s.o.RelistSpread
	}
	return outcome{Kind: mustList, Reason: reason, Wait: s.spread > 0 || s.listedRecently()}
}

func (s *session) listedRecently() bool {
	return !s.lists.ended.IsZero() && s.o.Clock.Since(s.lists.ended) < healthyWatch
}

func (s *session) connect(ctx context.Context) bool {
	s.conn.connecting.down = func(err error) {
		s.conn.showDown(err)
		// While the link is down, even after a watch that ended in order, the next connection may be late and to
		// another server.
		s.watching.end = lost
		s.conn.setLive(false)
	}
	return s.conn.connecting.acquire(ctx) == nil
}

// relistInSlot is the state Relist, with permission of Options.Limiter to list and to connect. It waits for the
// permission to list first, so that a waiting reflector does not hold a permission to connect.
func (s *session) relistInSlot(ctx context.Context) outcome {
	s.conn.connected()
	defer s.conn.listing.release()
	if s.conn.listing.acquire(ctx) != nil || !s.connect(ctx) {
		return outcome{Kind: stop}
	}
	return s.relist(ctx)
}
