package reflector_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector"
)

// TestOverdue checks that Status and OnError report a request that does not return after its time-out, OnError once per
// request, and that the reflector continues when the request returns. (issue 3)
func TestOverdue(t *testing.T) {
	for name, tt := range map[string]struct {
		stuck func(r request) bool
		// held is true if the Sink has the objects of an earlier list.
		held  bool
		texts []string
	}{
		"the first page":   {stuck: func(r request) bool { return !r.Watch && !r.probe() }, texts: []string{"failed to list "}},
		"the second page":  {stuck: func(r request) bool { return r.Continue != "" }, texts: []string{"failed to list "}},
		"the folded watch": {stuck: func(r request) bool { return r.Watch }, texts: []string{"watch "}},
		"a page and the folded watch": {
			stuck: func(r request) bool { return r.Watch || r.Continue != "" }, texts: []string{"failed to list ", "watch "},
		},
		"a look-up": {stuck: func(r request) bool { return r.probe() && r.FieldSelector != "" }, held: true,
			texts: []string{"look up a/"}},
		"the probe": {stuck: func(r request) bool { return r.probe() && r.FieldSelector == "" }, held: true,
			texts: []string{"probe "}},
		"the resuming watch": {stuck: func(r request) bool { return r.Watch }, held: true, texts: []string{"watch "}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(30)
				if tt.held {
					g.start(reflector.Options{})
					g.sleep(time.Minute)
					g.restart(func() {}, reflector.Options{})
					g.stop()
					g.errs = nil
				}
				d := newStuckLister(g.s, tt.stuck)
				g.startOn(d, reflector.Options{PageSize: 10, TypeDescription: "*v1.ConfigMap"})
				g.sleep(requestTimeout + callWait - time.Second)
				if st := g.r.Status(); st.Err != nil || len(g.errs) > 0 {
					t.Errorf("in time: %v, told %v", st.Err, g.errs)
				}
				g.sleep(10 * time.Minute)
				if st := g.r.Status(); !errors.Is(st.Err, reflector.ErrOverdue) {
					t.Errorf("overdue: status %+v", st)
				}
				g.wantOverdue(tt.texts)
				close(d.released)
				g.sleep(time.Minute)
				if st := g.r.Status(); st.Err != nil || st.State != reflector.Watch {
					t.Errorf("returned: status %+v", st)
				}
				g.converged()
				g.cancel()
				if err := <-g.done; err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		})
	}
}

// wantOverdue checks that OnError received ErrOverdue once for each call whose error contains one of the texts.
func (g *rig) wantOverdue(texts []string) {
	g.t.Helper()
	if len(g.errs) != len(texts) {
		g.t.Errorf("OnError received %v", g.errs)
	}
	for _, text := range texts {
		n := 0
		for _, err := range g.errs {
			s := err.Error()
			if strings.HasPrefix(s, text) && strings.Contains(s, "*v1.ConfigMap") &&
				strings.Contains(s, "has not returned for 1m35s") && errors.Is(err, reflector.ErrOverdue) {
				n++
			}
		}
		if n != 1 {
			g.t.Errorf("OnError received %v, want one of %q", g.errs, text)
		}
	}
}

func (g *rig) startOn(lw cache.ListerWatcherWithContext, o reflector.Options) {
	o.OnError = func(_ context.Context, err error) {
		g.s.mu.Lock()
		defer g.s.mu.Unlock()
		g.errs = append(g.errs, err)
	}
	g.r = reflector.New(lw, g.m, o)
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(context.Background())
	g.done = make(chan error, 1)
	go func() { g.done <- g.r.Run(ctx) }()
	synctest.Wait()
}

// TestOverdueInAQuietWatch checks a silent watch whose probe does not return in time. When the probe returns, it shows
// that no event was missed.
func TestOverdueInAQuietWatch(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(1)
		var stuck atomic.Bool
		d := newStuckLister(g.s, func(r request) bool { return stuck.Load() && r.probe() })
		g.startOn(d, reflector.Options{})
		stuck.Store(true)
		g.sleep(silenceLimit + requestTimeout + callWait + time.Second)
		// The probe has not returned, so the watch may be dead: the reflector is not live.
		if st := g.r.Status(); !errors.Is(st.Err, reflector.ErrOverdue) || st.State != reflector.Watch || st.Live {
			t.Errorf("overdue: status %+v", st)
		}
		stuck.Store(false)
		close(d.released)
		g.sleep(time.Second)
		if st := g.r.Status(); st.Err != nil || st.State != reflector.Watch || !st.Live || st.Watches != 1 ||
			len(g.errs) != 1 {
			t.Errorf("returned: status %+v, errors %v", st, g.errs)
		}
		g.cancel()
		if err := <-g.done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
