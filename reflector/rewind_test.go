package reflector_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

// beforeWatch runs do before the server answers the n-th watch request from now on. An error of do is the answer.
func (g *rig) beforeWatch(n int, do func() error) {
	g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
		if n--; n != 0 {
			return nil, nil
		}
		return nil, do()
	}
}

// TestRewoundBetweenWatches checks that a restore of the server between two watches is detected. The newest object was
// written again since the restore and proves nothing; an older object does.
func TestRewoundBetweenWatches(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.s.put("a/y", "1")
		b := g.s.backup()
		g.start(reflector.Options{})
		g.s.put("a/x", "lost")
		g.s.put("a/y", "lost")
		g.beforeWatch(1, func() error {
			time.Sleep(2 * time.Second)
			g.s.restore(b)
			g.s.other(10)
			g.s.put("a/y", "2")
			g.s.other(1)
			return nil
		})
		for range 22 { // 22 steps are eleven minutes, longer than any watch
			g.sleep(30 * time.Second)
		}
		if n := len(g.errs); n > 0 {
			t.Errorf("%d errors: the watch did not end in order: %v", n, g.errs)
		}
		g.wantRelist(reflector.ReasonRewound)
		g.stop()
	})
}

// TestRewoundAndPastUs checks that an event of a restored server is not delivered before the look-ups have answered.
func TestRewoundAndPastUs(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		b := g.s.backup()
		g.s.put("a/x", "lost")
		g.start(reflector.Options{})
		g.restart(func() {
			g.s.restore(b)
			g.s.other(10)
			g.s.put("a/new", "1")
		}, reflector.Options{})
		g.sleep(10 * time.Second)
		if l := g.m.lines(); len(l) == 0 || l[0] != "MUSTLIST Rewound" {
			t.Errorf("sink calls %q", l)
		}
		g.wantRelist(reflector.ReasonRewound)
		g.stop()
	})
}

func TestEventOfAnotherObjectIsNotDelivered(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.m.forget()
		g.s.withoutEvents(func() { g.s.remove("a/x") })
		g.s.put("a/x", "another")
		g.sleep(10 * time.Second)
		if l := g.m.lines(); len(l) == 0 || l[0] != "MUSTLIST Rewound" {
			t.Errorf("sink calls %q", l)
		}
		g.wantRelist(reflector.ReasonRewound)
		g.stop()
	})
}

// TestListOfARewoundServer checks that a list after a 410 detects that the server was restored from a backup, since no
// object can be looked up before the list. A second list then replaces every stored object.
func TestListOfARewoundServer(t *testing.T) {
	for name, after := range map[string]struct {
		change func(s *server)
		reason reflector.Reason
	}{
		"behind us": {func(s *server) { s.put("a/z", "1") }, reflector.ReasonAhead},
		"past us":   {func(s *server) { s.other(10) }, reflector.ReasonRewound},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				b := g.s.backup()
				g.s.put("a/x", "lost")
				g.s.put("a/y", "lost")
				g.start(reflector.Options{})
				g.restart(func() {
					g.beforeWatch(1, func() error {
						g.s.restore(b)
						after.change(g.s)
						return apierrors.NewResourceExpired("too old")
					})
				}, reflector.Options{})
				g.sleep(time.Minute)
				if st := g.r.Status(); st.Relists[after.reason] != 1 || st.LastRelist != after.reason {
					t.Errorf("relists %v (last %s), want one for %s", st.Relists, st.LastRelist, after.reason)
				}
				g.converged()
				g.stop()
			})
		})
	}
}

func TestWatchesLastFiveToTenMinutes(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		for range 24 * 60 {
			g.sleep(time.Minute)
			g.s.other(1) // a change of another resource makes the server send bookmarks
		}
		var least, most int64 = 1 << 62, 0
		for _, r := range g.s.seen() {
			if !r.Watch || r.TimeoutSeconds == nil {
				continue
			}
			least, most = min(least, *r.TimeoutSeconds), max(most, *r.TimeoutSeconds)
		}
		if _, _, watches := g.s.counts(); watches < 24*6 || least < 300 || most > 600 || most-least < 60 {
			t.Errorf("%d watches a day, of %d to %d s", watches, least, most)
		}
		g.stop()
	})
}
