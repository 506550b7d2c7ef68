package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/guest"
	"github.com/larder-dev/larder/reflector/internal/history"
	"github.com/larder-dev/larder/reflector/internal/pace"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// guards ask at every connect whether the server can be the one whose stream we hold, and how far it has gone on. See
// doc.go, "Verify and the guards".
type guards struct {
	s *session
	// target is the resourceVersion to drain to; empty if drained.
	target string
	// awaited are objects that the server has changed since our state, as the look-ups say: each needs an event
	// before target is reached. Those that are left when the connection is lost are looked up again at the next.
	awaited awaited
	// unguarded: the next watch that is accepted has yet to be held against what we hold.
	unguarded bool
	// compared: Options.Same has been asked in this run, or must not be. comparing: the next watch that is accepted asks
	// it.
	compared, comparing bool
	// even: the last probe found the server at our resourceVersion, so a watch from there needs no history.
	even bool
	// noLookups: look-ups by list do not work here.
	noLookups bool
	// heavy are the objects that cannot be looked up since they are too large for the link.
	heavy map[string]bool
	// probed selects what a probe lists. Empty: the first object.
	probed string

	// What Options.Verify, Options.Lookup and Options.Same are called through.
	verifier guest.Guest[Reason]
	finder   guest.Guest[found]
	samer    guest.Guest[comparedWith]
}

func newGuards(s *session) *guards {
	return &guards{
		s: s, heavy: map[string]bool{},
		verifier: guest.Guest[Reason]{What: "Options.Verify", Wait: request.CallWait},
		finder:   guest.Guest[found]{What: "Options.Lookup", Wait: request.CallWait},
		samer:    guest.Guest[comparedWith]{What: "Options.Same", Wait: request.CallWait},
	}
}

// verify is the state Verify: it finds out whether the server can be the one whose stream we hold, and how far it has
// gone on. The look-ups follow once the watch has been accepted (see guard).
func (g *guards) verify(ctx context.Context) outcome {
	g.even = false
	if g.comparing = g.compares(); !g.comparing {
		if reason, err := g.verifyHook(ctx); reason != "" || err != nil {
			return g.refused(ctx, reason, err)
		}
	}
	if !entry.ComparableRV(g.s.cur.RV) {
		return g.verifyOpaque()
	}
	if g.s.last == lost {
		g.s.announced = false
	}
	g.unguarded = true
	if g.s.last != drainedOut {
		g.target = ""
	}
	if g.comparing {
		return outcome{Kind: behind} // as far as is known: guard asks, everything at once
	}
	rv, err := g.probe(ctx)
	if err != nil {
		return g.s.lose(ctx, err)
	}
	return g.judge(ctx, rv)
}

// lookUpsAfter is how many objects to look up at a connect. After a watch that ended in order at its time-out one will
// do; after a drain none, since the look-ups were a moment ago. But only if the next watch was accepted at once: else
// the server may have been another one meanwhile.
func (g *guards) lookUpsAfter(e ending, accepted time.Time) int {
	switch {
	case e == lost || accepted.Sub(g.s.endedAt) > swiftly:
		return history.MaxLookups
	case e == timedOut:
		return 1
	}
	return 0
}

// swiftly is less than an API server takes to be stopped, restored and started.
const swiftly = time.Second

// guard is asked of a watch that has been accepted, before anything of it is delivered: are the newest objects that we
// hold what the server has? Whoever answers is the server that has accepted the watch, or a later one, and then the
// watch breaks. So however often the requests were made again, or waited for a connection: what agrees with us is no
// older than the history that the watch tells.
func (g *guards) guard(ctx context.Context) outcome {
	if !g.unguarded || !entry.ComparableRV(g.s.cur.RV) {
		g.unguarded = false
		return outcome{}
	}
	n := g.lookUpsAfter(g.s.last, g.s.stream.heard)
	if g.comparing {
		answer := g.verifying(ctx)
		same, o := g.compare(ctx)
		reason, err := answer()
		switch {
		case reason != "", err != nil && (o.Kind == "" || o.Kind == behind):
			o = g.refused(ctx, reason, err)
		case err != nil:
			klog.FromContext(ctx).V(2).Info("Not verified; the connection is lost, or a list is due anyway", "err", err)
		}
		if o.Kind != "" {
			return o
		}
		if same {
			n = 0
		}
	}
	var v verdict
	if n > 0 {
		var err error
		if v, err = g.lookUp(ctx, n); err != nil {
			return g.s.lose(ctx, err)
		}
		if v.rewound {
			return g.s.listFor(ReasonRewound)
		}
		g.awaited = v.awaited
	}
	if n == history.MaxLookups && !v.at || len(g.awaited) > 0 && n > 0 {
		if o := g.probeAgain(ctx, v.by); o.Kind != "" {
			return o
		}
	}
	g.unguarded, g.s.stream.heard = false, g.s.o.Clock.Now()
	g.s.stream.slow = g.s.slow // over a thin link they would be asked for ever
	g.s.slow = !g.s.stream.heard.Before(g.s.stream.begun.Add(g.s.stream.timeout))
	g.s.healthy() // a request may have been overdue
	return outcome{}
}

// probeAgain asks where the server stands after the look-ups: whatever they have seen must have come before the watch
// has reached that.
func (g *guards) probeAgain(ctx context.Context, by string) outcome {
	rv, err := g.probe(ctx)
	switch {
	case err != nil:
		return g.s.lose(ctx, err)
	case history.Below(rv, g.s.cur.RV):
		return g.ahead(ctx, rv)
	case len(g.awaited) == 0:
		return outcome{}
	case rv == g.s.cur.RV:
		return g.unexplainedAt(ctx, rv)
	}
	g.target = history.Max(g.target, history.Max(by, rv))
	if g.s.pos.State == Watch {
		g.s.closeStream() // a watch with a short time-out brings the bookmark sooner
		return outcome{Kind: behind}
	}
	return outcome{}
}

// ahead says that the server is behind us.
func (g *guards) ahead(ctx context.Context, server string) outcome {
	klog.FromContext(ctx).Info(
		"Our resourceVersion is ahead of the server's: another cluster, or one restored from a backup",
		"resourceVersion", g.s.cur.RV, "server", server)
	return g.s.listFor(ReasonAhead)
}

// judge compares our resourceVersion with the server's.
func (g *guards) judge(ctx context.Context, server string) outcome {
	g.even = entry.ComparableRV(server) && server == g.s.cur.RV
	switch {
	case !entry.ComparableRV(server):
		g.target, g.awaited = "", nil
		return outcome{Kind: level}
	case history.Below(server, g.s.cur.RV):
		return g.ahead(ctx, server)
	case g.s.last == drainedOut && g.target == "", g.s.last == timedOut && len(g.awaited) == 0:
		return outcome{Kind: level}
	case g.s.last == drainedOut:
		// The drain goes on with its target, or a busy server would never be reached.
		if history.Below(server, g.target) {
			g.target = server
		}
	default:
		g.target = history.Max(g.target, server)
	}
	switch {
	case server != g.s.cur.RV:
		return outcome{Kind: behind}
	case g.s.last != lost && len(g.awaited) > 0:
		return g.unexplainedAt(ctx, server)
	}
	return outcome{Kind: level}
}

// unexplainedAt: nothing has happened since. Then nothing can explain a difference either.
func (g *guards) unexplainedAt(ctx context.Context, server string) outcome {
	klog.FromContext(ctx).Info("Objects that we hold differ at the server although its resourceVersion is ours: "+rewound,
		"objects", len(g.awaited), "resourceVersion", server)
	return g.s.listFor(ReasonRewound)
}

// verifyOpaque is for servers whose resourceVersions cannot be compared: nothing can be checked. One
// that is not even there cannot be watched from either: deletions would be lost.
func (g *guards) verifyOpaque() outcome {
	if g.s.cur.RV == "" || g.s.cur.RV == "0" {
		return g.s.listFor(ReasonNotResumable)
	}
	return outcome{Kind: level}
}

// verifying begins to call Options.Verify. The function that it returns has to be called, and waits for the answer.
func (g *guards) verifying(ctx context.Context) (answer func() (Reason, error)) {
	var reason Reason
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		reason, err = g.verifyHook(ctx)
	}()
	return func() (Reason, error) {
		<-done
		return reason, err
	}
}

// refused is what comes of an answer of Options.Verify that is not yes.
func (g *guards) refused(ctx context.Context, reason Reason, err error) outcome {
	if err != nil {
		return g.s.lose(ctx, err)
	}
	return g.s.listFor(reason)
}

// verifyHook calls Options.Verify. That it succeeds is no sign of life: it may have asked nobody.
func (g *guards) verifyHook(ctx context.Context) (Reason, error) {
	if g.s.o.Verify == nil {
		return "", nil
	}
	limited, cancel := context.WithTimeout(ctx, pace.RequestTimeout)
	defer cancel()
	reason, err := g.verifier.Call(ctx, limited, g.s.o.Verify)
	if err != nil {
		return "", g.s.describe("verify the server of", err)
	}
	return reason, nil
}

// nobody is the name of an object that is hardly there. A list of it tells the server's resourceVersion, too.
const nobody = "larder-probe-of-the-resourceversion"

// errTooLong is why there is no use in asking for one object again.
var errTooLong = errors.New("one object takes longer to come than its request may last")

// probe asks for the server's resourceVersion.
func (g *guards) probe(ctx context.Context) (string, error) {
	g.s.r.board.update(func(st *Status) { st.Probes++ })
	_, m, err := g.listOne(ctx, metav1.ListOptions{Limit: 1, FieldSelector: g.probed}, "probe")
	if errors.Is(err, errTooLong) && g.probed == "" {
		g.probed = keySelector(nobody)
		return g.probe(ctx)
	}
	if request.Refused(err) {
		g.probed = ""
	}
	if err != nil {
		return "", g.s.describe("probe", err)
	}
	g.s.heard()
	return m.GetResourceVersion(), nil
}

// listOne makes a list request for the identity of one object, by metadata where that is possible. It has as much time
// as one object needs over this link. The error is errTooLong if there is no use in trying again.
func (g *guards) listOne(
	ctx context.Context, o metav1.ListOptions, what string,
) (runtime.Object, metav1.ListInterface, error) {
	lw, byMetadata := g.s.metadataLister()
	begun := time.Now()
	list, m, err := lw.List(ctx, g.s.patience.Time(), o, g.s.tells(ctx, what))
	if byMetadata && request.RefusesMetadata(err) {
		lw, g.s.noMetadata = g.s.lw, !isDenied(err) // a denial may pass
		g.s.r.board.update(func(st *Status) { st.Probes++ })
		list, m, err = lw.List(ctx, g.s.patience.Time(), o, g.s.tells(ctx, what))
	}
	if g.s.patience.Learn(time.Since(begun), err) {
		err = fmt.Errorf("%w: %w", errTooLong, err)
	}
	return list, m, err
}
