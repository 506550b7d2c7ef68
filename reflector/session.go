package reflector

import (
	"context"
	"time"

	"k8s.io/client-go/util/watchlist"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/guest"
)

// session is one Run: everything that only its goroutine touches. It is the sink's only caller.
type session struct {
	r    *Reflector
	lw   listerWatcher
	sink Sink
	o    Options

	pos    position
	cur    cursor
	newest newest

	// stream is the open watch; nil if there is none.
	stream *stream
	// opening is a watch that a list began to open; it goes on as the stream.
	opening *opening
	// target is the resourceVersion to drain to; empty if drained.
	target string
	// doubts are objects that the server has changed since our state, as the look-ups say: each needs an event
	// before target is reached. Those that are left when the connection is lost are looked up again at the next.
	doubts doubts
	// last is how the last watch ended.
	last ending
	// even: the last probe found the server at our resourceVersion, so a watch from there needs no history.
	even bool
	// fresh: nothing has been watched since the list, so the next watch is not a resume.
	fresh bool
	// resumes is where this run began; empty once that has been logged.
	resumes string
	// announced: Synced has been called since the last list, or since the connection was lost.
	announced bool
	// bookmarks: the server has sent one in this run.
	bookmarks bool
	// quiet counts drains in a row that ended in order and silent; see drainedQuietly.
	quiet int
	// noLookups: look-ups by list do not work here.
	noLookups bool

	backoff backoff
	// inquiry is what Reflector.Examine was asked.
	inquiry *inquiry
	// strays counts the objects that are none of those asked for. astray: since the last list without any there was one for another reason than its Go type.
	strays int
	astray bool
	// stray is why the newest of them is one.
	stray error
	// lastErr is the error that the next Backoff or Degraded waits for.
	lastErr error
	// lastList is when the last list ended.
	lastList time.Time
	// limit is that of the next page.
	limit limit
	// listedAt is the highest resourceVersion at which a list was begun, also one that was given up.
	listedAt string
	// useWatchList: lists are to come as watches, and this server can do that as far as is known.
	useWatchList bool
	// noCached: the server's cache is not asked for a list, until one by pages has ended.
	noCached bool
	// cachedAt is the resourceVersion of the last list that came from there.
	cachedAt string
	// sinkErr is why the sink made us stop.
	sinkErr error

	// What Options.Verify, Options.Lookup and Options.ServerVersion are called through.
	verifier  guest.Guest[Reason]
	finder    guest.Guest[found]
	versioner guest.Guest[string]
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
		r: r, lw: listerWatcher{r.lw}, sink: r.sink, o: r.o, pos: position{State: Restore}, limit: newLimit(r.o.PageSize),
		useWatchList: r.o.UseWatchList && !watchlist.DoesClientNotSupportWatchListSemantics(r.lw),
		verifier:     guest.Guest[Reason]{What: "Options.Verify", Wait: callWait},
		finder:       guest.Guest[found]{What: "Options.Lookup", Wait: callWait},
		versioner:    guest.Guest[string]{What: "Options.ServerVersion", Wait: callWait},
	}
	s.inquiry = newInquiry(s)
	return s
}

// run drives the machine until it has stopped.
func (s *session) run(ctx context.Context) error {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "reflector", s.o.Name)
	ctx = klog.NewContext(ctx, logger)
	defer s.closeStream()
	for s.pos.State != Stopped {
		s.r.board.update(func(st *Status) { st.State = s.pos.State })
		o := s.enter(ctx)
		if ctx.Err() != nil {
			o = outcome{Kind: stop}
		}
		was := s.pos
		s.pos = next(s.pos, o)
		logger.V(4).Info("Reflector moved on", "from", was.State, "outcome", o.Kind, "to", s.pos.State, "listDue", s.pos.Reason)
		if s.pos.State != Drain && s.pos.State != Watch {
			s.closeStream()
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
		if reason := s.r.takeAsked(); reason != "" {
			return outcome{Kind: mustList, Reason: reason}
		}
	}
	switch s.pos.State {
	case Restore:
		return s.restore(ctx)
	case Verify:
		return s.verify(ctx)
	case Drain, Watch:
		return s.watch(ctx)
	case Relist:
		return s.relist(ctx)
	case Backoff, Degraded:
		return s.wait(ctx)
	case Stopped:
	}
	return outcome{Kind: stop}
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
	case !comparableRV(cp.ResourceVersion):
		reason = ReasonStore
	}
	if cp.ResourceVersion != "" {
		s.moveTo(cursor{rv: cp.ResourceVersion})
	}
	if reason != "" {
		return outcome{Kind: mustList, Reason: reason}
	}
	for _, ref := range cp.Newest {
		s.newest.put(ref)
	}
	s.resumes = cp.ResourceVersion
	return outcome{Kind: resumable}
}

// wait sits out the back-off of lastErr.
func (s *session) wait(ctx context.Context) outcome {
	d := s.backoff.next
	if s.pos.State == Degraded {
		d = s.backoff.slow
	}
	timer := s.o.Clock.NewTimer(d(retryAfter(s.lastErr)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return outcome{Kind: stop}
	case <-timer.C():
		return outcome{Kind: waited}
	}
}

// lose notes an error that ended a connection, and returns failed or denied.
func (s *session) lose(ctx context.Context, err error) outcome {
	if ctx.Err() != nil {
		return outcome{Kind: stop}
	}
	s.report(ctx, err)
	s.lastErr, s.last = err, lost
	if isDenied(err) {
		return outcome{Kind: denied}
	}
	return outcome{Kind: failed}
}

// report tells everybody about an error of the connection.
func (s *session) report(ctx context.Context, err error) {
	klog.FromContext(ctx).V(2).Info("Connection lost", "err", err, "resourceVersion", s.cur.rv)
	s.r.board.update(func(st *Status) { st.Err = err })
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
}

// heard notes a sign of life from the server.
func (s *session) heard() {
	now := s.o.Clock.Now()
	s.r.board.update(func(st *Status) { st.LastContact = now })
	if s.o.OnContact != nil {
		s.o.OnContact()
	}
}

// moveTo publishes a new place in the stream.
func (s *session) moveTo(c cursor) {
	s.cur = c
	s.r.board.update(func(st *Status) { st.ResourceVersion = c.rv })
}

// synced tells the sink that everything has been delivered, once per connection.
func (s *session) synced(ctx context.Context) error {
	s.target, s.quiet = "", 0
	if s.announced {
		return nil
	}
	if s.resumes != "" && s.lastList.IsZero() {
		klog.FromContext(ctx).Info("Resumed", "resourceVersion", s.resumes, "now", s.cur.rv)
	}
	s.resumes = ""
	if err := s.sink.Synced(ctx); err != nil {
		return err
	}
	s.announced = true
	return nil
}

// listFor returns mustList, after a wait if there was a list a moment ago: a server whose history is
// always too short must not be listed in a circle.
func (s *session) listFor(reason Reason) outcome {
	recent := !s.lastList.IsZero() && s.o.Clock.Since(s.lastList) < health
	s.lastErr = nil
	return outcome{Kind: mustList, Reason: reason, Wait: recent}
}
