package reflector_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
)

// TestRelistSpread checks that a list after a 410 waits for a random time if the Sink has contents to serve.
func TestRelistSpread(t *testing.T) {
	const spread = time.Hour
	var early, late int
	for range 60 {
		bubble(t, func(g *rig) {
			g.s.put("a/x", "1")
			g.start(reflector.Options{RelistSpread: spread})
			g.sleep(3 * time.Minute)
			g.lose()
			// In one of a thousand runs the random wait is over already.
			if st := g.r.Status(); st.Lists != 2 && (st.State != reflector.Backoff || st.Lists != 1 || !isExpired(st.Err)) {
				t.Errorf("just after: status %+v", st)
			}
			g.sleep(spread / 2)
			if g.r.Status().Lists == 2 {
				early++
			} else {
				late++
			}
			g.sleep(spread / 2)
			if st := g.r.Status(); st.State != reflector.Watch || st.Lists != 2 || st.Relists[reflector.ReasonExpired] != 1 ||
				st.Err != nil {
				t.Errorf("at the end: status %+v", st)
			}
			g.converged()
			g.stop()
		})
	}
	if early < 15 || late < 15 {
		t.Errorf("%d lists in the first half, %d in the second", early, late)
	}
}

func (g *rig) lose() {
	g.s.put("a/y", "1")
	g.s.compact()
	g.s.cut(nil)
	g.s.put("a/z", "1")
	g.s.compact()
	g.sleep(5 * time.Second)
}

// TestNoSpreadAtTheStart: before the first Synced the stored objects are not confirmed, so the list does not wait.
func TestNoSpreadAtTheStart(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			g.s.put("a/y", "1")
			g.s.compact()
		}, reflector.Options{RelistSpread: time.Hour})
		g.sleep(time.Second)
		if st := g.r.Status(); st.State != reflector.Watch || st.Relists[reflector.ReasonExpired] != 1 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

func TestSpreadEnds(t *testing.T) {
	for _, how := range []string{"Relist", "stop"} {
		bubble(t, func(g *rig) {
			g.s.put("a/x", "1")
			g.start(reflector.Options{RelistSpread: 1000 * time.Hour})
			g.sleep(3 * time.Minute)
			g.lose()
			if how == "Relist" {
				g.r.Relist(reflector.ReasonOpenAPI)
				g.sleep(limiter.BackoffBase)
				if st := g.r.Status(); st.State != reflector.Watch || st.Relists[reflector.ReasonOpenAPI] != 1 {
					t.Errorf("status %+v", st)
				}
			}
			synctest.Wait()
			g.stop()
		})
	}
}

// TestShortSpread checks that a server whose history is always too short is not listed endlessly.
func TestShortSpread(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{RelistSpread: time.Millisecond})
		g.sleep(3 * time.Minute)
		for range 600 {
			g.s.put("a/y", "1")
			g.s.compact()
			g.s.cut(apierrors.NewResourceExpired("too old"))
			g.sleep(time.Second)
		}
		if n := g.r.Status().Relists[reflector.ReasonExpired]; n < 10 || n > 80 {
			t.Errorf("%d lists in ten minutes", n)
		}
		g.stop()
	})
}

// TestSpreadBeforeRelist checks that RelistSpread does not delay a list that Reflector.Relist requested before a 410.
func TestSpreadBeforeRelist(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		var once sync.Once
		g.start(reflector.Options{RelistSpread: 1000 * time.Hour, OnError: func(context.Context, error) {
			once.Do(func() { g.r.Relist(reflector.ReasonOpenAPI) })
		}})
		g.sleep(3 * time.Minute)
		g.lose()
		if st := g.r.Status(); st.State != reflector.Watch || st.Relists[reflector.ReasonOpenAPI] != 1 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}
