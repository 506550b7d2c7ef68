package reflector_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/reflector"
)

func (g *rig) putWithoutEvent(key string) { g.s.withoutEvents(func() { g.s.put(key, "1") }) }

// TestContradicted checks that a contradiction leads to one list per connection. (Issue 16, A13.)
func TestContradicted(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.putWithoutEvent("a/healed")
		g.putWithoutEvent("a/lost")
		g.s.remove("a/lost")
		g.sleep(10 * time.Second)
		g.wantRelist(reflector.ReasonRewound)
		g.putWithoutEvent("a/odd")
		g.s.put("a/odd", "2")
		if g.r.AcceptsContradiction() || g.r.Contradicted() {
			t.Error("another list on this connection")
		}
		g.s.cut(nil) // the watch ends in order, so the connection does not count as lost
		g.putWithoutEvent("a/odder")
		g.s.remove("a/odder")
		g.sleep(10 * time.Second)
		g.wantRelist(reflector.ReasonRewound)

		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.sleep(10 * time.Second)
		if !g.r.AcceptsContradiction() {
			t.Error("no list on another connection")
		}
		g.putWithoutEvent("a/again")
		g.s.remove("a/again")
		g.sleep(time.Minute)
		if st := g.r.Status(); st.Relists[reflector.ReasonRewound] != 2 || len(st.Relists) != 1 || !st.Live {
			t.Errorf("relists %v, live %v", st.Relists, st.Live)
		}
		g.converged()
		g.stop()
	})
}

// TestContradictedBeforeAList checks that a list that replaces every stored object repairs a contradiction. After any
// other list, a list for ReasonRewound follows.
func TestContradictedBeforeAList(t *testing.T) {
	for reason, lists := range map[reflector.Reason]int{reflector.ReasonAudit: 1, reflector.ReasonOpenAPI: 1,
		reflector.ReasonExpired: 2} {
		t.Run(string(reason), func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(50)
				g.start(reflector.Options{PageSize: 10})
				asked := false
				g.atPage(2, func() error {
					asked = true
					if !g.r.Contradicted() {
						t.Error("no list follows")
					}
					return nil
				})
				g.r.Relist(reason)
				g.sleep(5 * time.Minute)
				st := g.r.Status()
				if st.Relists[reason] != 1 || st.Relists[reflector.ReasonRewound] != lists-1 || !asked {
					t.Errorf("relists %v, asked: %v", st.Relists, asked)
				}
				g.stop()
			})
		})
	}
}

// TestStraysContradictNothing checks that events about objects that Options.Admit has refused do not count as
// contradictions, and that the deletion of these objects is delivered.
func TestStraysContradictNothing(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{Admit: func(obj runtime.Object) error {
			if v := obj.(*corev1.ConfigMap).Data["v"]; v == "stray" {
				return errors.New("a stray")
			}
			return nil
		}})
		g.m.forget()
		for n := range 3 {
			g.s.put(fmt.Sprintf("a/%d", n), "stray")
		}
		g.s.put("a/0", "1")
		g.s.remove("a/1")
		g.s.remove("a/x")
		g.s.put("a/x", "1")
		g.sleep(time.Second)
		g.wantLog("MODIFIED a/0 ", "DELETED a/1 ", "DELETED a/x ", "ADDED a/x ")
		if st := g.r.Status(); len(st.Relists) > 0 {
			t.Errorf("relists %v", st.Relists)
		}
		g.stop()
	})
}

// TestListsOfAnOddServerAreSpaced checks that a list for a contradicting event waits if the last list was recent.
func TestListsOfAnOddServerAreSpaced(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		for n, c := range []struct {
			since time.Duration
			waits bool
		}{{0, true}, {time.Minute, true}, {health, false}, {time.Minute, true}} {
			g.s.cut(apierrors.NewInternalError(errors.New("boom")))
			g.sleep(c.since)
			g.sleep(30 * time.Second)
			g.m.forget()
			key := fmt.Sprintf("a/%d", n)
			g.putWithoutEvent(key)
			g.s.put(key, "2")
			g.sleep(0)
			if st := g.r.Status(); c.waits != (st.State == reflector.Backoff) ||
				c.waits != (st.Relists[reflector.ReasonRewound] == n) {
				t.Errorf("%d: %v, relists %v", n, st.State, st.Relists)
			}
			if l := g.m.lines(); len(l) < 2 || l[1] != "MUSTLIST Rewound" {
				t.Errorf("%d: sink calls %q", n, l)
			}
			g.sleep(20 * time.Second)
			if st := g.r.Status(); st.Relists[reflector.ReasonRewound] != n+1 || !st.Live {
				t.Errorf("%d: live %v, relists %v", n, st.Live, st.Relists)
			}
			g.converged()
		}
		g.stop()
	})
}

// TestOddServerIsNotListedInACircle checks that lists stay rare if every connection contradicts the stored objects.
func TestOddServerIsNotListedInACircle(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		for n := range 600 {
			key := fmt.Sprintf("a/%d", n)
			g.putWithoutEvent(key)
			if n%5 < 4 {
				g.s.put(key, "2")
			} else {
				g.s.withoutEvents(func() { g.s.put(key, "2") })
				g.s.cut(apierrors.NewInternalError(errors.New("boom")))
			}
			g.sleep(time.Second)
		}
		if n := g.r.Status().Relists[reflector.ReasonRewound]; n < 2 || n > 40 {
			t.Errorf("%d lists in ten minutes", n)
		}
		g.stop()
	})
}
