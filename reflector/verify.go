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
	"github.com/larder-dev/larder/internal/base"
)

// guards check at every connect whether the server still has the history of the delivered events, and whether it has
// newer ones. See doc.go, "Verify and the guards".
type guards struct {
	s *session
	// target is the resourceVersion that the watch must reach in the state Drain; "" once it is reached.
	target string
	// awaited has the objects that the server has changed since the stored state: an event must arrive for each of them
	// before target is reached. If the connection is lost, the next connect looks the remaining objects up again.
	awaited awaited
	// pending is true if the stored objects must be compared with the server's once the next watch is accepted.
	pending bool
	// comparing is true if Options.Compare will be called once the next watch is accepted. incomparable is true once
	// Options.Compare has failed with ErrIncomparable or a similar error.
	comparing, incomparable bool
	// exact is true if awaited contains every difference between Sink and server: then Drain ends when all events for
	// the differences have arrived.
	exact bool
	// even is true if the last probe found the server at the newest delivered resourceVersion. A watch from there needs
	// no older history, so its acceptance counts as a resume.
	even      bool
	noLookups bool
	// slow is true if the last checks of the server took longer than the time-out of their watch.
	slow bool
	// probed is the field selector of the request for the server's resourceVersion (a list with limit=1); "" requests
	// the first object.
	probed string

	verifier base.Guest[Reason]
	comparer base.Guest[Comparison]
}

func newGuards(s *session) *guards {
	return &guards{
		s:        s,
		verifier: base.Guest[Reason]{What: "Options.Verify", Wait: callWait},
		comparer: base.Guest[Comparison]{What: "Options.Compare", Wait: callWait},
	}
}

// verify is the state Verify. It calls Options.Verify and compares the server's resourceVersion with the delivered one.
// Single objects are compared later, once the watch has been accepted (guards.guard).
func (g *guards) verify(ctx context.Context) outcome {
	g.even, g.exact = false, false
	if g.comparing = g.compares(ctx); !g.comparing {
		if reason, err := g.verifyHook(ctx, g.s.watching.brokeAt); reason != "" || err != nil {
			return g.refused(ctx, reason, err)
		}
	}
	if !g.s.cur.Comparable() {
		return g.verifyOpaque()
	}
	if g.s.watching.end == lost {
		g.s.announced = false
	}
	g.pending = true
	if g.s.watching.end != drainedOut {
		g.target = ""
	}
	if g.comparing {
		// The server is assumed to be newer; guard compares the objects once the watch is accepted.
		return outcome{Kind: behind}
	}
	rv, err := g.probe(ctx)
	if err != nil {
		return g.s.lose(ctx, err)
	}
	return g.judge(ctx, rv)
}

// lookUpsAfter returns how many stored objects to compare with the server's at a connect. It returns 1 after a watch
// that ended at its time-out, and 0 after a short watch of the state Drain, whose comparison is recent. It returns
// maxLookups after a lost connection, and if the next watch was not accepted at once: the server may have been
// replaced meanwhile.
func (g *guards) lookUpsAfter(e ending, accepted time.Time) int {
	switch {
	case e == lost || accepted.Sub(g.s.watching.endedAt) > swiftly:
		return maxLookups
	case e == timedOut:
		return 1
	}
	return 0
}

// swiftly is the maximum time between two watches after which the server counts as unchanged. An API server cannot be
// stopped, restored from a backup and started so quickly.
const swiftly = time.Second

// guard runs once a watch has been accepted, before its first event is delivered. It checks whether the newest stored
// objects are the server's. The answer comes from the server that accepted the watch: if that server is replaced, the
// watch breaks. So an answer that agrees is as current as the watch, however often requests were retried or waited for
// a connection.
func (g *guards) guard(ctx context.Context) outcome {
	if !g.pending || !g.s.cur.Comparable() {
		g.pending = false
		return outcome{}
	}
	n := g.lookUpsAfter(g.s.watching.end, g.s.watching.stream.waitBegun)
	if g.comparing {
		answer := g.verifying(ctx)
		done, o := g.compare(ctx)
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
		if done {
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
	if n == maxLookups || len(g.awaited) > 0 && n > 0 {
		if o := g.serverPosition(ctx, v.at); o.Kind != "" {
			return o
		}
	}
	g.pending, g.s.watching.stream.waitBegun = false, g.s.o.Clock.Now()
	// If the previous checks took longer than the time-out, so may the next ones; otherwise every watch over a slow
	// link would count as lost.
	g.s.watching.stream.slow = g.slow
	g.slow = !g.s.watching.stream.waitBegun.Before(g.s.watching.stream.begun.Add(g.s.watching.stream.timeout))
	g.s.healthy() // clears the error of an overdue request
	return outcome{}
}

// serverPosition sets the resourceVersion before which the watch must deliver the events that explain the differences
// found. at is the highest resourceVersion in the answers to the look-ups; if it is "", the server is probed.
func (g *guards) serverPosition(ctx context.Context, at string) outcome {
	if at == "" {
		rv, err := g.probe(ctx)
		if err != nil {
			return g.s.lose(ctx, err)
		}
		at = rv
	}
	switch {
	case below(at, g.s.cur.RV):
		return g.ahead(ctx, at)
	case len(g.awaited) == 0:
		return outcome{}
	case at == g.s.cur.RV:
		return g.unexplainedAt(ctx, at)
	}
	g.target = maxRV(g.target, at)
	if g.s.pos.State == Watch {
		g.s.closeStream() // a watch with a three-second time-out receives a bookmark sooner than a long watch
		return outcome{Kind: behind}
	}
	return outcome{}
}

// ahead requests a list, since a server below the delivered resourceVersion was restored or replaced.
func (g *guards) ahead(ctx context.Context, server string) outcome {
	klog.FromContext(ctx).Info(
		"Our resourceVersion is ahead of the server's: another cluster, or one restored from a backup",
		"resourceVersion", g.s.cur.RV, "server", server)
	return g.s.listFor(ReasonAhead)
}

// judge compares the server's resourceVersion with the delivered one, and sets the target of the state Drain.
func (g *guards) judge(ctx context.Context, server string) outcome {
	g.even = entry.ComparableRV(server) && server == g.s.cur.RV
	switch {
	case !entry.ComparableRV(server):
		g.target, g.awaited = "", nil
		return outcome{Kind: level}
	case below(server, g.s.cur.RV):
		return g.ahead(ctx, server)
	case g.s.watching.end == drainedOut && g.target == "", g.s.watching.end == timedOut && len(g.awaited) == 0:
		return outcome{Kind: level}
	case g.s.watching.end == drainedOut:
		// The state Drain keeps its first target: the newest resourceVersion of a busy server would never be reached.
		if below(server, g.target) {
			g.target = server
		}
	default:
		g.target = maxRV(g.target, server)
	}
	switch {
	case server != g.s.cur.RV:
		return outcome{Kind: behind}
	case g.s.watching.end != lost && len(g.awaited) > 0:
		return g.unexplainedAt(ctx, server)
	}
	return outcome{Kind: level}
}

// unexplainedAt requests a list: objects differ at the delivered resourceVersion, so no event can explain that.
func (g *guards) unexplainedAt(ctx context.Context, server string) outcome {
	klog.FromContext(ctx).Info("Objects that we hold differ at the server although its resourceVersion is ours: "+rewound,
		"objects", len(g.awaited), "resourceVersion", server)
	return g.s.listFor(ReasonRewound)
}

// verifyOpaque replaces the checks for servers whose resourceVersions cannot be compared. If the last list had no
// resourceVersion at all, it requests a list, because a watch would miss deletions.
func (g *guards) verifyOpaque() outcome {
	if g.s.cur.RV == "" || g.s.cur.RV == "0" {
		return g.s.listFor(ReasonNotResumable)
	}
	return outcome{Kind: level}
}

func (g *guards) verifying(ctx context.Context) (answer func() (Reason, error)) {
	var reason Reason
	var err error
	done, lost := make(chan struct{}), g.s.watching.brokeAt
	go func() {
		defer close(done)
		reason, err = g.verifyHook(ctx, lost)
	}()
	return func() (Reason, error) {
		<-done
		return reason, err
	}
}

func (g *guards) refused(ctx context.Context, reason Reason, err error) outcome {
	if err != nil {
		return g.s.lose(ctx, err)
	}
	return g.s.listFor(reason)
}

// verifyHook calls Options.Verify. Success does not count as a contact: Verify need not have called the server.
func (g *guards) verifyHook(ctx context.Context, lost time.Time) (Reason, error) {
	if g.s.o.Verify == nil {
		return "", nil
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	awaited, ended := awaitAnswer(limited, g.s.conn)
	defer ended()
	reason, err := g.verifier.Call(ctx, awaited, func(ctx context.Context) (Reason, error) {
		return g.s.o.Verify(ctx, lost)
	})
	if err != nil {
		return "", g.s.conn.describe("verify the server of", err)
	}
	return reason, nil
}

// noSuchObject is the name of an object that does not exist. A list with a field selector on this name is empty, and
// returns the server's resourceVersion too.
const noSuchObject = "larder-probe-of-the-resourceversion"

// errTooLong is the error of a request for one object that timed out, if a retry would time out again.
var errTooLong = errors.New("one object takes longer to come than its request may last")

func (g *guards) probe(ctx context.Context) (string, error) {
	g.s.r.board.update(func(st *Status) { st.Probes++ })
	_, m, err := g.listOne(ctx, metav1.ListOptions{Limit: 1, FieldSelector: g.probed}, "probe", false)
	if errors.Is(err, errTooLong) && g.probed == "" {
		g.probed = keySelector(noSuchObject)
		return g.probe(ctx)
	}
	if isRefused(err) {
		g.probed = ""
	}
	if err != nil {
		return "", g.s.conn.describe("probe", err)
	}
	g.s.answered(m.GetResourceVersion())
	return m.GetResourceVersion(), nil
}

// listOne makes a list request for one object: for metadata if whole is false and the server supports that, otherwise
// for the whole object. The time-out is patience.Time. The error is errTooLong if a retry would time out again.
func (g *guards) listOne(
	ctx context.Context, o metav1.ListOptions, what string, whole bool,
) (runtime.Object, metav1.ListInterface, error) {
	lw, byMetadata := g.s.conn.lw, false
	if !whole {
		lw, byMetadata = g.s.metadataLister()
	}
	begun := time.Now()
	list, m, err := lw.List(ctx, g.s.lists.patience.Time(), o, g.s.conn.overdueReporter(ctx, what))
	if byMetadata && refusesMetadata(err) {
		// A 403 or 404 may be temporary, so the next request tries metadata again.
		lw, g.s.lists.noMetadata = g.s.conn.lw, !isDenied(err)
		g.s.r.board.update(func(st *Status) { st.Probes++ })
		list, m, err = lw.List(ctx, g.s.lists.patience.Time(), o, g.s.conn.overdueReporter(ctx, what))
	}
	if g.s.lists.patience.Learn(time.Since(begun), err) {
		err = fmt.Errorf("%w: %w", errTooLong, err)
	}
	return list, m, err
}
