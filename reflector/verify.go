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
	"github.com/larder-dev/larder/reflector/internal/history"
	"github.com/larder-dev/larder/reflector/internal/pace"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// verify is the state Verify: it finds out whether the server can be the one whose stream we hold, and how far it has
// gone on. The look-ups follow once the watch has been accepted (see guard).
func (s *session) verify(ctx context.Context) outcome {
	s.even = false
	if s.comparing = s.compares(); !s.comparing {
		if reason, err := s.verifyHook(ctx); reason != "" || err != nil {
			return s.refused(ctx, reason, err)
		}
	}
	if !entry.ComparableRV(s.cur.RV) {
		return s.verifyOpaque()
	}
	if s.last == lost {
		s.announced = false
	}
	s.unguarded = true
	if s.last != drainedOut {
		s.target = ""
	}
	if s.comparing {
		return outcome{Kind: behind} // as far as is known: guard asks, everything at once
	}
	rv, err := s.probe(ctx)
	if err != nil {
		return s.lose(ctx, err)
	}
	return s.judge(ctx, rv)
}

// lookUpsAfter is how many objects to look up at a connect. After a watch that ended in order at its time-out one will
// do; after a drain none, since the look-ups were a moment ago. But only if the next watch was accepted at once: else
// the server may have been another one meanwhile.
func (s *session) lookUpsAfter(e ending, accepted time.Time) int {
	switch {
	case e == lost || accepted.Sub(s.endedAt) > swiftly:
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
func (s *session) guard(ctx context.Context) outcome {
	if !s.unguarded || !entry.ComparableRV(s.cur.RV) {
		s.unguarded = false
		return outcome{}
	}
	n := s.lookUpsAfter(s.last, s.stream.heard)
	if s.comparing {
		answer := s.verifying(ctx)
		same, o := s.compare(ctx)
		reason, err := answer()
		switch {
		case reason != "", err != nil && (o.Kind == "" || o.Kind == behind):
			o = s.refused(ctx, reason, err)
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
		if v, err = s.lookUp(ctx, n); err != nil {
			return s.lose(ctx, err)
		}
		if v.rewound {
			return s.listFor(ReasonRewound)
		}
		s.awaited = v.awaited
	}
	if n == history.MaxLookups && !v.at || len(s.awaited) > 0 && n > 0 {
		if o := s.probeAgain(ctx, v.by); o.Kind != "" {
			return o
		}
	}
	s.unguarded, s.stream.heard = false, s.o.Clock.Now()
	s.stream.slow = s.slow // over a thin link they would be asked for ever
	s.slow = !s.stream.heard.Before(s.stream.begun.Add(s.stream.timeout))
	s.healthy() // a request may have been overdue
	return outcome{}
}

// probeAgain asks where the server stands after the look-ups: whatever they have seen must have come before the watch
// has reached that.
func (s *session) probeAgain(ctx context.Context, by string) outcome {
	rv, err := s.probe(ctx)
	switch {
	case err != nil:
		return s.lose(ctx, err)
	case history.Below(rv, s.cur.RV):
		return s.ahead(ctx, rv)
	case len(s.awaited) == 0:
		return outcome{}
	case rv == s.cur.RV:
		return s.unexplainedAt(ctx, rv)
	}
	s.target = history.Max(s.target, history.Max(by, rv))
	if s.pos.State == Watch {
		s.closeStream() // a watch with a short time-out brings the bookmark sooner
		return outcome{Kind: behind}
	}
	return outcome{}
}

// ahead says that the server is behind us.
func (s *session) ahead(ctx context.Context, server string) outcome {
	klog.FromContext(ctx).Info(
		"Our resourceVersion is ahead of the server's: another cluster, or one restored from a backup",
		"resourceVersion", s.cur.RV, "server", server)
	return s.listFor(ReasonAhead)
}

// judge compares our resourceVersion with the server's.
func (s *session) judge(ctx context.Context, server string) outcome {
	s.even = entry.ComparableRV(server) && server == s.cur.RV
	switch {
	case !entry.ComparableRV(server):
		s.target, s.awaited = "", nil
		return outcome{Kind: level}
	case history.Below(server, s.cur.RV):
		return s.ahead(ctx, server)
	case s.last == drainedOut && s.target == "", s.last == timedOut && len(s.awaited) == 0:
		return outcome{Kind: level}
	case s.last == drainedOut:
		// The drain goes on with its target, or a busy server would never be reached.
		if history.Below(server, s.target) {
			s.target = server
		}
	default:
		s.target = history.Max(s.target, server)
	}
	switch {
	case server != s.cur.RV:
		return outcome{Kind: behind}
	case s.last != lost && len(s.awaited) > 0:
		return s.unexplainedAt(ctx, server)
	}
	return outcome{Kind: level}
}

// unexplainedAt: nothing has happened since. Then nothing can explain a difference either.
func (s *session) unexplainedAt(ctx context.Context, server string) outcome {
	klog.FromContext(ctx).Info("Objects that we hold differ at the server although its resourceVersion is ours: "+rewound,
		"objects", len(s.awaited), "resourceVersion", server)
	return s.listFor(ReasonRewound)
}

// verifyOpaque is for servers whose resourceVersions cannot be compared: nothing can be checked. One
// that is not even there cannot be watched from either: deletions would be lost.
func (s *session) verifyOpaque() outcome {
	if s.cur.RV == "" || s.cur.RV == "0" {
		return s.listFor(ReasonNotResumable)
	}
	return outcome{Kind: level}
}

// verifying begins to call Options.Verify. The function that it returns has to be called, and waits for the answer.
func (s *session) verifying(ctx context.Context) (answer func() (Reason, error)) {
	var reason Reason
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		reason, err = s.verifyHook(ctx)
	}()
	return func() (Reason, error) {
		<-done
		return reason, err
	}
}

// refused is what comes of an answer of Options.Verify that is not yes.
func (s *session) refused(ctx context.Context, reason Reason, err error) outcome {
	if err != nil {
		return s.lose(ctx, err)
	}
	return s.listFor(reason)
}

// verifyHook calls Options.Verify. That it succeeds is no sign of life: it may have asked nobody.
func (s *session) verifyHook(ctx context.Context) (Reason, error) {
	if s.o.Verify == nil {
		return "", nil
	}
	limited, cancel := context.WithTimeout(ctx, pace.RequestTimeout)
	defer cancel()
	reason, err := s.verifier.Call(ctx, limited, s.o.Verify)
	if err != nil {
		return "", s.describe("verify the server of", err)
	}
	return reason, nil
}

// nobody is the name of an object that is hardly there. A list of it tells the server's resourceVersion, too.
const nobody = "larder-probe-of-the-resourceversion"

// errTooLong is why there is no use in asking for one object again.
var errTooLong = errors.New("one object takes longer to come than its request may last")

// probe asks for the server's resourceVersion.
func (s *session) probe(ctx context.Context) (string, error) {
	s.r.board.update(func(st *Status) { st.Probes++ })
	_, m, err := s.listOne(ctx, metav1.ListOptions{Limit: 1, FieldSelector: s.probed}, "probe")
	if errors.Is(err, errTooLong) && s.probed == "" {
		s.probed = keySelector(nobody)
		return s.probe(ctx)
	}
	if request.Refused(err) {
		s.probed = ""
	}
	if err != nil {
		return "", s.describe("probe", err)
	}
	s.heard()
	return m.GetResourceVersion(), nil
}

// listOne makes a list request for the identity of one object, by metadata where that is possible. It has as much time
// as one object needs over this link. The error is errTooLong if there is no use in trying again.
func (s *session) listOne(
	ctx context.Context, o metav1.ListOptions, what string,
) (runtime.Object, metav1.ListInterface, error) {
	lw, byMetadata := s.metadataLister()
	begun := time.Now()
	list, m, err := lw.List(ctx, s.patience.Time(), o, s.tells(ctx, what))
	if byMetadata && request.RefusesMetadata(err) {
		lw, s.noMetadata = s.lw, !isDenied(err) // a denial may pass
		s.r.board.update(func(st *Status) { st.Probes++ })
		list, m, err = lw.List(ctx, s.patience.Time(), o, s.tells(ctx, what))
	}
	if s.patience.Learn(time.Since(begun), err) {
		err = fmt.Errorf("%w: %w", errTooLong, err)
	}
	return list, m, err
}
