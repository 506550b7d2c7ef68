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

// session is the state of one Run. Only Run's goroutine uses it, and only that goroutine calls the sink.
type session struct {
	r    *Reflector
	sink Sink
	o    Options

	pos    position
	cur    history.Progress
	newest history.Newest

	// conn is the connection with the server.
	conn *connection
	// watching is the state of the watch, and how the last one ended.
	watching watching
	// lists is the run's knowledge of the list requests that work.
	lists lists
	// leftOut lists the objects of Checkpoint.LeftOut that have not been looked up yet. cuts counts how often in a row the
	// answer for the first of them was cut off.
	leftOut []entry.ObjectRef
	cuts    int
	// seeding counts the calls of Options.Seed, and keeps the age of the seed that was applied.
	seeding seeding
	// guards compare the server with the sink's contents at every connect.
	guards *guards
	// gate decides which objects are delivered.
	gate *gate.Gate

	// resumes is the resourceVersion at which this run resumed; "" after the first Synced, which logs it.
	resumes string
	// announced is true if Synced has been called since the last list and since the connection was lost.
	announced bool
	// served is true if Synced has been called in this run.
	served bool
	// spread is the upper bound of the next wait, which is random; 0 if the next wait is a back-off.
	spread time.Duration
	// unreported is true if the stream has passed an object of another shard and the sink has not received that
	// resourceVersion yet. The next bookmark or event delivers it.
	unreported bool
	// sinkErr is the error with which the sink ended the run.
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

// run drives the state machine until it is Stopped. It returns nil if ctx ended, and otherwise the sink's error.
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

// enter runs the current state and returns its outcome.
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

// asked returns the outcome for a list that Relist or Contradicted requested; it is empty if neither did. A server may
// send contradicting events repeatedly, so a list for them may have to wait, unless a list or a back-off is due anyway.
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

// outOfTouch reports whether events may have been missed in this state. It is false in Verify, which also follows a
// watch that ended in order.
func (s *session) outOfTouch() bool {
	switch s.pos.State {
	case Backoff:
		return s.spread == 0 || s.pos.Reason != "" // false in the short wait after a watch that ended without an error
	case Refused, Degraded, Relist, Stopped:
		return true
	case Drain:
		return s.watching.end == lost
	}
	return false
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
		s.moveTo(history.At(cp.ResourceVersion))
	}
	for _, ref := range cp.Newest {
		s.newest.Put(ref) // a list is compared with them, too
	}
	if reason != "" {
		return outcome{Kind: mustList, Reason: reason}
	}
	s.resumes, s.leftOut = cp.ResourceVersion, cp.LeftOut
	return outcome{Kind: resumable}
}

// wait waits for a random part of spread, for the back-off of lists, or for the back-off of lastErr.
func (s *session) wait(ctx context.Context) outcome {
	var d time.Duration
	var recovered, asked <-chan struct{}
	if s.spread > 0 {
		d, asked, s.spread = rand.N(s.spread), s.r.wake, 0
		if s.pos.Reason != "" && s.listedRecently() {
			d += s.lists.backoff.Next(0)
		}
	} else if s.pos.Reason != "" && s.conn.lastErr == nil {
		d = s.lists.backoff.Next(0) // the back-off of lists, since there is no error
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
		return s.asked() // the requested list may need a shorter wait
	}
	return outcome{Kind: waited}
}

// lose records and reports an error that ended a connection, and returns failed or denied.
func (s *session) lose(ctx context.Context, err error) outcome {
	switch {
	case !s.disconnect(ctx, err):
		return outcome{Kind: stop}
	case isDenied(err):
		s.showListOnly(false) // lists are denied too
		return outcome{Kind: denied}
	}
	return outcome{Kind: failed}
}

// disconnect records and reports an error that ended a connection. It returns false if ctx has ended.
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

// healthy clears Status.Err, because the connection works.
func (s *session) healthy() {
	s.r.board.update(func(st *Status) { st.Err = nil })
	if s.announced && s.pos.State == Watch {
		s.conn.setLive(true)
	}
}

// answered records that the server has answered with its resourceVersion rv. If that is the stream's resourceVersion,
// the answer confirms the contents.
func (s *session) answered(rv string) {
	s.conn.received()
	if rv != "" && rv == s.cur.RV {
		s.conn.contact(s.o.Clock.Now())
	}
}

// moveTo sets how far the stream has been delivered, and publishes it in the Status.
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
		s.conn.setLive(true) // an overdue request has cleared Live, or the list's watch was not open yet
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
	if s.pos.State != Relist { // in Relist the watch is not open yet
		s.conn.setLive(true)
	}
	return nil
}

// listFor returns mustList for reason. The list has to wait if the last one was recent, so that a server whose history
// is always too short is not listed endlessly.
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

// listedRecently reports whether the last list ended less than pace.Health ago.
func (s *session) listedRecently() bool {
	return !s.lists.ended.IsZero() && s.o.Clock.Since(s.lists.ended) < pace.Health
}

// connect waits for a slot to connect, unless the session has one. It returns false if ctx has ended.
func (s *session) connect(ctx context.Context) bool {
	s.conn.connecting.down = func(err error) {
		s.conn.showDown(err)
		// Even if our own watch ended in order: the next one may be accepted much later, by another server.
		s.watching.end = lost
		s.conn.setLive(false)
	}
	return s.conn.connecting.acquire(ctx) == nil
}

// relistInSlot is the state Relist, with a slot to list and one to connect. It acquires the slot to list first, so that
// a session that waits for it does not hold a slot to connect.
func (s *session) relistInSlot(ctx context.Context) outcome {
	s.conn.connected()
	defer s.conn.listing.release()
	if s.conn.listing.acquire(ctx) != nil || !s.connect(ctx) {
		return outcome{Kind: stop}
	}
	return s.relist(ctx)
}
