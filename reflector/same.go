package reflector

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/internal/history"
)

const (
	// compareTime is how long a watch that has been accepted waits for Options.Same. A bookmark takes about as long to
	// show the same.
	compareTime = time.Second
	// earlyTime is how old a watch that drains may be when its aim gets known: the bookmark of an older one may have come
	// before that.
	earlyTime = 300 * time.Millisecond
)

// comparedWith is an answer of Options.Same.
type comparedWith struct {
	rv   string
	same bool
}

// compares reports whether Options.Same is to be asked of the next watch: once in a run, and only while nothing of this
// run has been delivered.
func (s *session) compares() bool {
	return s.o.Same != nil && !s.compared && s.resumes != "" && s.lastList.IsZero()
}

// compare asks Options.Same in the place of the probe, of a watch that has been accepted. As with the look-ups, whoever
// answers is the server that has accepted the watch, or a later one, and then the watch breaks: so what is the same
// here is no older than the history that the watch tells, and everything that the look-ups would find it has found.
// Whatever else the answer is, its resourceVersion, or else a probe's, is what has to be drained to.
func (s *session) compare(ctx context.Context) (same bool, o outcome) {
	s.compared, s.comparing = true, false
	a, err := s.askSame(ctx)
	if ctx.Err() != nil {
		return false, outcome{Kind: stop}
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info(
			"What is held was not compared with the server; a bookmark has to show that nothing was missed",
			"err", err)
	}
	if err != nil || !entry.ComparableRV(a.rv) || history.Below(a.rv, s.cur.RV) {
		a.same = false
		if a.rv, err = s.probe(ctx); err != nil {
			return false, s.lose(ctx, err)
		}
	}
	switch o = s.judge(ctx, a.rv); {
	case o.Kind == mustList:
		return false, o
	case a.same, o.Kind == level:
		s.target = ""
	case s.o.Clock.Since(s.stream.begun) > earlyTime:
		s.closeStream()
		return false, o
	}
	if s.even || a.same {
		s.holds(s.stream)
	}
	return a.same, outcome{}
}

// askSame calls Options.Same.
func (s *session) askSame(ctx context.Context) (comparedWith, error) {
	limited, cancel := context.WithTimeout(ctx, compareTime)
	defer cancel()
	a, err := s.samer.Call(ctx, limited, func(ctx context.Context) (a comparedWith, err error) {
		a.rv, a.same, err = s.o.Same(ctx)
		return a, err
	})
	if err == nil {
		err = limited.Err()
	}
	if err == nil {
		s.heard()
	}
	return a, err
}
