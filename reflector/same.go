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
func (g *guards) compares() bool {
	return g.s.o.Same != nil && !g.compared && g.s.resumes != "" && g.s.lastList.IsZero()
}

// compare asks Options.Same in the place of the probe, of a watch that has been accepted. As with the look-ups, whoever
// answers is the server that has accepted the watch, or a later one, and then the watch breaks: so what is the same
// here is no older than the history that the watch tells, and everything that the look-ups would find it has found.
// Whatever else the answer is, its resourceVersion, or else a probe's, is what has to be drained to.
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
	case g.s.o.Clock.Since(g.s.stream.begun) > earlyTime:
		g.s.closeStream()
		return false, o
	}
	if g.even || a.same {
		g.s.holds(g.s.stream)
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
		g.s.heard()
	}
	return a, err
}
