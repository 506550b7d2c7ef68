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

// guards check at every connect whether the server still has the history of the stream, and how far it has advanced.
// See doc.go, "Verify and the guards".
type guards struct {
	s *session
	// target is the resourceVersion at which the drain ends; empty if drained.
	target string
	// awaited has the objects that the server has changed since the stored state: each needs an event before target is
	// reached. The remaining ones are looked up again at the next connect if the connection is lost.
	awaited awaited
	// pending is true if the guards have to run once the next watch is accepted.
	pending bool
	// comparing is true if Options.Compare will be called once the next watch is accepted. incomparable is true once it
	// has failed with ErrIncomparable or a similar error.
	comparing, incomparable bool
	// exact is true if awaited has every difference: the drain ends when its events have arrived.
	exact bool
	// even is true if the last probe found the server at the stream's resourceVersion: a watch from there needs no
	// history.
	even bool
	// noLookups is true once look-ups by list have turned out not to work.
	noLookups bool
	// slow is true if the last guards took longer than their watch's time-out.
	slow bool
	// probed is the field selector of a probe; "" lists the first object.
	probed string

	// verifier and comparer call Options.Verify and Options.Compare.
	verifier guest.Guest[Reason]
	comparer guest.Guest[Comparison]
}

func newGuards(s *session) *guards {
	return &guards{
		s:        s,
		verifier: guest.Guest[Reason]{What: "Options.Verify", Wait: request.CallWait},
		comparer: guest.Guest[Comparison]{What: "Options.Compare", Wait: request.CallWait},
	}
}

// verify is the state Verify: it calls Options.Verify and compares the server's resourceVersion with the stream's. The
// look-ups follow once the watch has been accepted (see guard).
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
		return outcome{Kind: behind} // assumed; guard compares once the watch is accepted
	}
	rv, err := g.probe(ctx)
	if err != nil {
		return g.s.lose(ctx, err)
	}
	return g.judge(ctx, rv)
}

// lookUpsAfter returns how many objects to look up at a connect: one after a watch that ended at its time-out, none
// after a drain, whose look-ups are recent. If the next watch was not accepted at once, the server may have been
// replaced meanwhile. Then, and after a lost connection, it is history.MaxLookups.
func (g *guards) lookUpsAfter(e ending, accepted time.Time) int {
	switch {
	case e == lost || accepted.Sub(g.s.watching.endedAt) > swiftly:
		return history.MaxLookups
	case e == timedOut:
		return 1
	}
	return 0
}

// swiftly is the maximum time between two watches after which the server counts as the same: an API server cannot be
// stopped, restored and started so quickly.
const swiftly = time.Second

// guard runs once a watch has been accepted, before any of its events is delivered. It checks whether the newest stored
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
	if n == history.MaxLookups || len(g.awaited) > 0 && n > 0 {
		if o := g.serverPosition(ctx, v.at); o.Kind != "" {
			return o
		}
	}
	g.pending, g.s.watching.stream.waitBegun = false, g.s.o.Clock.Now()
	g.s.watching.stream.slow = g.slow // otherwise every watch over a thin link would count as lost when it ends
	g.slow = !g.s.watching.stream.waitBegun.Before(g.s.watching.stream.begun.Add(g.s.watching.stream.timeout))
	g.s.healthy() // clears the error of a request that was overdue
	return outcome{}
}

// serverPosition sets the target: the events that explain the look-ups must arrive before the watch has passed the
// server's resourceVersion at the look-ups. at is the highest resourceVersion of their answers; if it is "", the server
// is probed.
func (g *guards) serverPosition(ctx context.Context, at string) outcome {
	if at == "" {
		rv, err := g.probe(ctx)
		if err != nil {
			return g.s.lose(ctx, err)
		}
		at = rv
	}
	switch {
	case history.Below(at, g.s.cur.RV):
		return g.ahead(ctx, at)
	case len(g.awaited) == 0:
		return outcome{}
	case at == g.s.cur.RV:
		return g.unexplainedAt(ctx, at)
	}
	g.target = history.Max(g.target, at)
	if g.s.pos.State == Watch {
		g.s.closeStream() // a watch with a short time-out receives the bookmark sooner
		return outcome{Kind: behind}
	}
	return outcome{}
}

// ahead requests a list because the server's resourceVersion is below the stream's.
func (g *guards) ahead(ctx context.Context, server string) outcome {
	klog.FromContext(ctx).Info(
		"Our resourceVersion is ahead of the server's: another cluster, or one restored from a backup",
		"resourceVersion", g.s.cur.RV, "server", server)
	return g.s.listFor(ReasonAhead)
}

// judge compares the server's resourceVersion with the stream's and sets the target of the drain.
func (g *guards) judge(ctx context.Context, server string) outcome {
	g.even = entry.ComparableRV(server) && server == g.s.cur.RV
	switch {
	case !entry.ComparableRV(server):
		g.target, g.awaited = "", nil
		return outcome{Kind: level}
	case history.Below(server, g.s.cur.RV):
		return g.ahead(ctx, server)
	case g.s.watching.end == drainedOut && g.target == "", g.s.watching.end == timedOut && len(g.awaited) == 0:
		return outcome{Kind: level}
	case g.s.watching.end == drainedOut:
		// The drain keeps its target: the newest resourceVersion of a busy server would never be reached.
		if history.Below(server, g.target) {
			g.target = server
		}
	default:
		g.target = history.Max(g.target, server)
	}
	switch {
	case server != g.s.cur.RV:
		return outcome{Kind: behind}
	case g.s.watching.end != lost && len(g.awaited) > 0:
		return g.unexplainedAt(ctx, server)
	}
	return outcome{Kind: level}
}

// unexplainedAt requests a list: objects differ although the server is at the stream's resourceVersion, so no event can
// explain them.
func (g *guards) unexplainedAt(ctx context.Context, server string) outcome {
	klog.FromContext(ctx).Info("Objects that we hold differ at the server although its resourceVersion is ours: "+rewound,
		"objects", len(g.awaited), "resourceVersion", server)
	return g.s.listFor(ReasonRewound)
}

// verifyOpaque is for servers whose resourceVersions cannot be compared: nothing can be checked. If the list had none
// at all, it requests a list, because a watch would miss deletions.
func (g *guards) verifyOpaque() outcome {
	if g.s.cur.RV == "" || g.s.cur.RV == "0" {
		return g.s.listFor(ReasonNotResumable)
	}
	return outcome{Kind: level}
}

// verifying calls Options.Verify on a goroutine. The caller must call answer, which waits for the result.
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

// refused returns the outcome of a reason or an error of Options.Verify.
func (g *guards) refused(ctx context.Context, reason Reason, err error) outcome {
	if err != nil {
		return g.s.lose(ctx, err)
	}
	return g.s.listFor(reason)
}

// verifyHook calls Options.Verify. Success does not count as a contact: Options.Verify need not have called the server.
func (g *guards) verifyHook(ctx context.Context, lost time.Time) (Reason, error) {
	if g.s.o.Verify == nil {
		return "", nil
	}
	limited, cancel := context.WithTimeout(ctx, pace.RequestTimeout)
	defer cancel()
	awaited, ended := request.Await(limited, g.s.conn)
	defer ended()
	reason, err := g.verifier.Call(ctx, awaited, func(ctx context.Context) (Reason, error) {
		return g.s.o.Verify(ctx, lost)
	})
	if err != nil {
		return "", g.s.conn.describe("verify the server of", err)
	}
	return reason, nil
}

// noSuchObject is the name of an object that does not exist. A list of it returns the server's resourceVersion too.
const noSuchObject = "larder-probe-of-the-resourceversion"

// errTooLong is the error of a request for one object whose retry would time out again.
var errTooLong = errors.New("one object takes longer to come than its request may last")

// probe returns the server's resourceVersion, by a list with limit=1.
func (g *guards) probe(ctx context.Context) (string, error) {
	g.s.r.board.update(func(st *Status) { st.Probes++ })
	_, m, err := g.listOne(ctx, metav1.ListOptions{Limit: 1, FieldSelector: g.probed}, "probe", false)
	if errors.Is(err, errTooLong) && g.probed == "" {
		g.probed = keySelector(noSuchObject)
		return g.probe(ctx)
	}
	if request.Refused(err) {
		g.probed = ""
	}
	if err != nil {
		return "", g.s.conn.describe("probe", err)
	}
	g.s.answered(m.GetResourceVersion())
	return m.GetResourceVersion(), nil
}

// listOne makes a list request for one object: for its identity, by metadata if possible, or for the whole object. Its
// time-out is patience.Time. The error is errTooLong if a retry would time out again.
func (g *guards) listOne(
	ctx context.Context, o metav1.ListOptions, what string, whole bool,
) (runtime.Object, metav1.ListInterface, error) {
	lw, byMetadata := g.s.conn.lw, false
	if !whole {
		lw, byMetadata = g.s.metadataLister()
	}
	begun := time.Now()
	list, m, err := lw.List(ctx, g.s.lists.patience.Time(), o, g.s.conn.overdueReporter(ctx, what))
	if byMetadata && request.RefusesMetadata(err) {
		lw, g.s.lists.noMetadata = g.s.conn.lw, !isDenied(err) // a denial may be temporary
		g.s.r.board.update(func(st *Status) { st.Probes++ })
		list, m, err = lw.List(ctx, g.s.lists.patience.Time(), o, g.s.conn.overdueReporter(ctx, what))
	}
	if g.s.lists.patience.Learn(time.Since(begun), err) {
		err = fmt.Errorf("%w: %w", errTooLong, err)
	}
	return list, m, err
}
