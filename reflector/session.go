package reflector

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/internal/gate"
	"github.com/larder-dev/larder/reflector/internal/history"
	"github.com/larder-dev/larder/reflector/internal/pace"
)

// session is the state of one call of Reflector.Run. Only Run's goroutine uses it, and only that goroutine calls the
// sink.
type session struct {
	r    *Reflector
	sink Sink
	o    Options

	pos    position
	cur    history.Progress
	newest history.Newest

	// conn is the connection with the server.
	conn *connection
	// watching is the state of the open watch, and how the previous watch ended.
	watching watching
	// lists records which kinds of list requests the server has supported in this run.
	lists lists
	// leftOut lists the objects of Checkpoint.LeftOut that still have to be fetched and delivered. cuts counts how
	// often in a row the answer for the first of them broke off.
	leftOut []entry.ObjectRef
	cuts    int
	// seeding counts the calls of Options.Seed, and records when the seed was taken that the sink holds.
	seeding seeding
	// guards compare the server's state with the sink's contents at every connect.
	guards *guards
	// gate decides which of the server's objects are delivered: by type, scope and shard.
	gate *gate.Gate

	// resumes is the resourceVersion at which this run resumed its first watch, for a log message at the first Synced;
	// "" after it.
	resumes string
	// announced is true if Sink.Synced has been called since the last list and since the last loss of the connection.
	announced bool
	// served is true once Sink.Synced has been called in this run.
	served bool
	// spread is the upper bound of the next wait, which is random; 0 if the next wait is a back-off.
	spread time.Duration
	// unreported is true if the stream has passed an event of another shard, so that its resourceVersion is newer than
	// the one that the sink has received. The next bookmark or event delivers the newer resourceVersion.
	unreported bool
	// sinkErr is the error of a sink's method that ended the run; nil before.
	sinkErr error
}

func newSession(r *Reflector) *session {
	s := &session{
		r: r, sink: r.sink, o: r.o, pos: position{State: Restore}, conn: newConnection(r), lists: newLists(r),
		gate: gate.New(gate.Options{
			ExpectedType: r.o.ExpectedType, Admit: r.o.Admit, Shard: r.o.Shard, Clock: r.o.Clock, OnDrop: r.board.setDropped,
		}),
	}
	s.guards = newGuards(s)
	return s
}

// run drives the state machine until its state is Stopped. It returns nil if ctx has ended, and otherwise the sink's
// error.
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

// enter runs the current state of the state machine and returns its outcome.
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

// outOfTouch reports whether the connection is lost in this state, so that events may have been missed. It is false in
// the state Verify, which also follows a watch that ended in order.
func (s *session) outOfTouch() bool {
	switch s.pos.State {
	case Backoff:
		// False during the short wait after a watch that ended without an error.
		return s.spread == 0 || s.pos.Reason != ""
	case Refused, Degraded, Relist, Stopped:
		return true
	case Drain:
		return s.watching.end == lost
	}
	return false
}

// restore is the state Restore of the state machine: it reads the sink's Checkpoint, and decides whether a watch can
// resume.
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
		s.moveTo(history.At(cp.ResourceVersion))
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
		d = s.lists.backoff.Next(0) // without an error, the wait is the back-off of repeated lists
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

// lose records and reports an error that ended a connection. It returns the outcome failed, or denied for a 403, 404 or
// 405.
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

// disconnect records an error that ended a connection, and reports it to Options.OnError. It returns false if ctx has
// ended.
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

// sinkClosed stops the machine with the sink's error.
func (s *session) sinkClosed(err error) outcome {
	s.sinkErr = err
	return outcome{Kind: stop}
}

// healthy clears Status.Err: the connection works again.
func (s *session) healthy() {
	s.r.board.update(func(st *Status) { st.Err = nil })
	if s.announced && s.pos.State == Watch {
		s.conn.setLive(true)
	}
}

// answered records that the server has answered and is at resourceVersion rv. If the stream is at the same
// resourceVersion, the answer confirms the sink's objects.
func (s *session) answered(rv string) {
	s.conn.received()
	if rv != "" && rv == s.cur.RV {
		s.conn.contact(s.o.Clock.Now())
	}
}

// moveTo records how far the stream has been delivered, and publishes the resourceVersion in the Status.
func (s *session) moveTo(c history.Progress) {
	s.cur = c
	s.r.board.update(func(st *Status) { st.ResourceVersion = c.RV })
}

// synced calls Sink.Synced, unless it was called since the last list and since the connection was last lost. It returns
// the sink's error.
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

// listedRecently reports whether the last list ended less than two minutes (pace.Health) ago.
func (s *session) listedRecently() bool {
	return !s.lists.ended.IsZero() && s.o.Clock.Since(s.lists.ended) < pace.Health
}

// connect waits until Options.Limiter permits the session to connect. It returns false if ctx has ended.
func (s *session) connect(ctx context.Context) bool {
	s.conn.connecting.down = func(err error) {
		s.conn.showDown(err)
		// The link is down. Even if the session's own watch ended in order, the next one may be accepted much later, by
		// another server.
		s.watching.end = lost
		s.conn.setLive(false)
	}
	return s.conn.connecting.acquire(ctx) == nil
}

// relistInSlot is the state Relist, with permission of Options.Limiter to list and to connect. It waits for the
// permission to list first, so that a waiting session does not hold a permission to connect.
func (s *session) relistInSlot(ctx context.Context) outcome {
	s.conn.connected()
	defer s.conn.listing.release()
	if s.conn.listing.acquire(ctx) != nil || !s.connect(ctx) {
		return outcome{Kind: stop}
	}
	return s.relist(ctx)
}
