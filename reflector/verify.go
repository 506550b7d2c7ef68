package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// verify is the state Verify: it finds out whether the server is the one whose stream we hold, and
// how far it has gone on. The look-ups come before the probe, so that a watch which has reached the
// probe's resourceVersion has passed everything they saw.
func (s *session) verify(ctx context.Context) outcome {
	s.even = false
	if reason, err := s.verifyHook(ctx); err != nil {
		return s.lose(ctx, err)
	} else if reason != "" {
		return s.listFor(reason)
	}
	if !comparableRV(s.cur.rv) {
		return s.verifyOpaque()
	}
	if s.last == lost {
		s.announced = false
	}
	if n := lookUpsAfter(s.last); n > 0 {
		verdict, err := s.lookUp(ctx, n)
		if err != nil {
			return s.lose(ctx, err)
		}
		if verdict.rewound {
			return s.listFor(ReasonRewound)
		}
		s.target, s.doubts = verdict.by, verdict.doubts
	}
	rv, err := s.probe(ctx)
	if err != nil {
		return s.lose(ctx, err)
	}
	return s.judge(ctx, rv)
}

// lookUpsAfter is how many objects to look up at a connect. After a watch that ended in order at its time-out one will
// do, for the case that the server was replaced at this very moment; after a drain none, since the look-ups were a
// moment ago.
func lookUpsAfter(e ending) int {
	switch e {
	case timedOut:
		return 1
	case drainedOut:
		return 0
	}
	return maxLookups
}

// judge compares our resourceVersion with the server's.
func (s *session) judge(ctx context.Context, server string) outcome {
	logger := klog.FromContext(ctx)
	s.even = comparableRV(server) && server == s.cur.rv
	switch {
	case !comparableRV(server):
		s.target, s.doubts = "", nil
		return outcome{Kind: level}
	case below(server, s.cur.rv):
		logger.Info("Our resourceVersion is ahead of the server's: another cluster, or one restored from a backup",
			"resourceVersion", s.cur.rv, "server", server)
		return s.listFor(ReasonAhead)
	case s.last == drainedOut && s.target == "", s.last == timedOut && len(s.doubts) == 0:
		return outcome{Kind: level}
	case s.last == drainedOut:
		// The drain goes on with its target, or a busy server would never be reached.
		if below(server, s.target) {
			s.target = server
		}
	default:
		s.target = maxRV(s.target, server)
	}
	if server != s.cur.rv {
		return outcome{Kind: behind}
	}
	// Nothing has happened since. Then nothing can explain a difference either.
	if len(s.doubts) > 0 {
		logger.Info("Objects that we hold differ at the server although its resourceVersion is ours: "+rewound, "objects", len(s.doubts))
		return s.listFor(ReasonRewound)
	}
	return outcome{Kind: level}
}

// verifyOpaque is for servers whose resourceVersions can not be compared: nothing can be checked. One
// that is not even there can not be watched from either: deletions would be lost.
func (s *session) verifyOpaque() outcome {
	if s.cur.rv == "" || s.cur.rv == "0" {
		return s.listFor(ReasonNotResumable)
	}
	return outcome{Kind: level}
}

// verifyHook calls Options.Verify. That it succeeds is no sign of life: it may have asked nobody.
func (s *session) verifyHook(ctx context.Context) (Reason, error) {
	if s.o.Verify == nil {
		return "", nil
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	reason, err := s.verifier.Call(ctx, limited, s.o.Verify)
	if err != nil {
		return "", s.describe("verify the server of", err)
	}
	return reason, nil
}

// nobody is the name of an object that is hardly there. A list of it tells the server's resourceVersion, too.
const nobody = "larder-probe-of-the-resourceversion"

// probe asks for the server's resourceVersion.
func (s *session) probe(ctx context.Context) (string, error) {
	s.r.board.update(func(st *Status) { st.Probes++ })
	_, m, err := s.listOne(ctx, metav1.ListOptions{Limit: 1, FieldSelector: s.probed}, "probe")
	if errors.Is(err, errTooLong) && s.probed == "" {
		s.probed = keySelector(nobody)
		return s.probe(ctx)
	}
	if isRefused(err) {
		s.probed = ""
	}
	if err != nil {
		return "", s.describe("probe", err)
	}
	s.heard()
	return m.GetResourceVersion(), nil
}

// listOne makes a list request for the identity of one object, by metadata where that is possible. It has as much time as one object needs over this link. The
// error is errTooLong if there is no use in trying again.
func (s *session) listOne(ctx context.Context, o metav1.ListOptions, what string) (runtime.Object, metav1.ListInterface, error) {
	lw, byMetadata := s.metadataLister()
	begun := time.Now()
	list, m, err := s.listRequest(ctx, lw, s.patience.time(), o, s.tells(ctx, what))
	if byMetadata && refusesMetadata(err) {
		lw, s.noMetadata = s.lw, !isDenied(err) // a denial may pass
		s.r.board.update(func(st *Status) { st.Probes++ })
		list, m, err = s.listRequest(ctx, lw, s.patience.time(), o, s.tells(ctx, what))
	}
	if s.patience.learn(time.Since(begun), err) {
		err = fmt.Errorf("%w: %w", errTooLong, err)
	}
	return list, m, err
}

// listRequest makes one list request that has so much time. It may run on any goroutine; overdue is called on it.
func (s *session) listRequest(
	ctx context.Context, lw listerWatcher, within time.Duration, o metav1.ListOptions, overdue func(error),
) (runtime.Object, metav1.ListInterface, error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var a answers
	list, err := lw.list(ctx, a.count(limited), o, overdue)
	if err != nil {
		return nil, nil, a.explain(err)
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, nil, fmt.Errorf("the answer to a list request is no list: %w", err)
	}
	return list, m, nil
}
