package reflector

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/internal/history"
)

const (
	// compareTime bounds a call of Options.Same, while the accepted watch waits. The bookmark of a drain takes about as
	// long.
	compareTime = time.Second
	// earlyTime is how old a draining watch may be when its target becomes known. An older one may already have received
	// its bookmark.
	earlyTime = 300 * time.Millisecond
)

// comparedWith is the result of Options.Same.
type comparedWith struct {
	rv   string
	same bool
}

// compares reports whether Options.Same is to be called after the next watch is accepted: once in a run that resumes,
// before anything has been delivered.
func (g *guards) compares() bool {
	return g.s.o.Same != nil && !g.compared && g.s.resumes != "" && g.s.lists.ended.IsZero()
}

// compare calls Options.Same instead of the probe, once the watch has been accepted. As with the look-ups, the answer
// comes from the server that accepted the watch, or from a later one, and then the watch breaks. So a comparison that
// finds no difference is as current as the watch, and replaces the look-ups. After any other result the drain's target
// is the resourceVersion of the result, or else of a probe.
func (g *guards) compare(ctx context.Context) (same bool, o outcome) {
	g.compared, g.comparing = true, false
	a, err := g.askSame(ctx)
	if ctx.Err() != nil {
		return false, outcome{Kind: stop}
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info(
			"What is held was not compared with the server; a bookmark has to show that nothing was missed",
			"err", err)
	}
	if err != nil || !entry.ComparableRV(a.rv) || history.Below(a.rv, g.s.cur.RV) {
		a.same = false
		if a.rv, err = g.probe(ctx); err != nil {
			return false, g.s.lose(ctx, err)
		}
	}
	switch o = g.judge(ctx, a.rv); {
	case o.Kind == mustList:
		return false, o
	case a.same, o.Kind == level:
		g.target = ""
	case g.s.o.Clock.Since(g.s.watching.stream.begun) > earlyTime:
		g.s.closeStream()
		return false, o
	}
	if g.even || a.same {
		g.s.conn.contact(g.s.o.Clock.Now())
		g.s.holds(g.s.watching.stream)
	}
	return a.same, outcome{}
}

// askSame calls Options.Same.
func (g *guards) askSame(ctx context.Context) (comparedWith, error) {
	limited, cancel := context.WithTimeout(ctx, compareTime)
	defer cancel()
	a, err := g.samer.Call(ctx, limited, func(ctx context.Context) (a comparedWith, err error) {
		a.rv, a.same, err = g.s.o.Same(ctx)
		return a, err
	})
	if err == nil {
		err = limited.Err()
	}
	if err == nil {
		g.s.conn.heard()
	}
	return a, err
}
