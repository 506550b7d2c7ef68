package reflector_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
)

// TestNotLiveInTheQueue checks that a reflector that waits for permission to connect is not live.
func TestNotLiveInTheQueue(t *testing.T) {
	for _, how := range []string{"before", "at its time-out"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newFleet(t, 100, nil)
				time.Sleep(time.Minute)
				g.away.Store(true)
				for range 10 {
					time.Sleep(time.Minute)
					for _, m := range g.members {
						if m.other(1); how == "before" {
							m.cut(nil)
						}
					}
				}
				time.Sleep(5 * time.Second)
				for i, m := range g.members {
					if m.r.Live() {
						t.Errorf("%d is live, with %+v", i, m.r.Status())
					}
					m.put("a/new", "1")
				}
				g.away.Store(false)
				time.Sleep(time.Minute)
				for i, m := range g.members {
					if !m.r.Live() || m.syncs() != 2 {
						t.Errorf("%d was told %d times that it has synced, with %+v", i, m.syncs(), m.r.Status())
					}
				}
				g.end()
			})
		})
	}
}

// TestRequestsThatIgnoreTheirContext checks that other reflectors connect and list although requests that never return
// occupy every slot of Options.Limiter.
func TestRequestsThatIgnoreTheirContext(t *testing.T) {
	for _, what := range []string{"probe", "first page", "second page"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				released := make(chan struct{})
				g := newFleet(t, 20, func(i int, m *member) {
					if i >= 8 {
						return
					}
					m.before = func(o metav1.ListOptions) {
						hangs := false
						switch what {
						case "probe":
							hangs = o.Limit == 1
						case "first page":
							hangs = o.Limit > 1 && o.Continue == ""
						case "second page":
							hangs = o.Continue != ""
						}
						if hangs {
							<-released
						}
					}
				})
				if what == "probe" {
					time.Sleep(time.Minute)
					for _, m := range g.members {
						m.cut(apierrors.NewInternalError(errRefused))
					}
				}
				time.Sleep(10 * time.Minute)
				if n := g.live(); n != 12 {
					t.Errorf("%d of 12 are live", n)
				}
				close(released)
				time.Sleep(5 * time.Minute)
				if n := g.live(); n != 20 {
					t.Errorf("%d of 20 are live", n)
				}
				g.end()
			})
		})
	}
}

// TestASilentWatchIsNoOutage: the link is up, because the server has just answered another request.
func TestASilentWatchIsNoOutage(t *testing.T) {
	bubble(t, func(g *rig) {
		l := limiter.New()
		g.s.put("a/x", "1")
		g.start(reflector.Options{Limiter: l})
		g.s.other(1)
		g.sleep(time.Minute) // a bookmark arrives within a minute
		g.s.mute()
		g.s.put("a/x", "2")
		g.sleep(silenceLimit)
		if n, _, _ := l.Down(); n != 0 || !errors.Is(g.r.Status().Err, reflector.ErrSilent) {
			t.Errorf("%d failures of the link; %v", n, g.r.Status().Err)
		}
		g.sleep(time.Minute)
		g.converged()
		g.stop()
	})
}
