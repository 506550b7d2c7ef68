package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/reflector"
)

func TestRoutineReconnectIsCheap(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		for range 130 {
			g.sleep(30 * time.Second)
			g.s.other(1) // a change of another resource makes the server send bookmarks
		}
		g.s.put("a/x", "2") // the event shows that the last watch works
		g.sleep(time.Millisecond)
		st := g.r.Status()
		if st.Lookups != st.Watches-1 || st.Probes != 2*(st.Watches-1) || st.Watches < 7 || st.Watches > 14 ||
			st.Lists != 1 || st.Resumes != st.Watches-1 {
			t.Errorf("status %+v", st)
		}
		if len(g.errs) != 0 || g.m.syncs() != 1 {
			t.Errorf("errors %v, %d syncs", g.errs, g.m.syncs())
		}
		g.stop()
	})
}

func TestAtMostFiveLookups(t *testing.T) {
	bubble(t, func(g *rig) {
		for i := range 30 {
			g.s.put(fmt.Sprintf("a/%d", i), "1")
		}
		g.start(reflector.Options{})
		for i := range 30 {
			g.s.put(fmt.Sprintf("a/%d", i), "2")
		}
		synctest.Wait()
		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.sleep(time.Second)
		if st := g.r.Status(); st.Lookups != 5 || st.Probes != 6 {
			t.Errorf("status %+v", st)
		}
		// The newest five objects are looked up, in the order of their keys.
		if r := g.s.seen()[4]; r.FieldSelector != "metadata.name=29,metadata.namespace=a" || r.Limit != 1 {
			t.Errorf("looked up with %s", asJSON(r))
		}
		g.stop()
	})
}

// TestLookupsThatCannotWork checks that only the rewind check is turned off if single objects cannot be requested.
func TestLookupsThatCannotWork(t *testing.T) {
	setups := map[string]func(s *server){
		"the field selector is overwritten": func(s *server) { s.fixedSelector = "metadata.namespace=a" },
		"the field selector is refused": func(s *server) {
			s.onList = func(r request) (runtime.Object, error) {
				if r.FieldSelector != "" {
					return nil, apierrors.NewBadRequest("field label not supported: metadata.name")
				}
				return nil, nil
			}
		},
	}
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				setup(g.s)
				g.s.put("a/x", "1")
				g.s.put("a/y", "1")
				g.start(reflector.Options{})
				g.restart(func() { g.s.put("a/z", "1"); g.s.remove("a/y") }, reflector.Options{})
				g.sleep(time.Second)
				g.s.cut(apierrors.NewInternalError(errors.New("boom")))
				g.sleep(5 * time.Second)
				g.wantNoList()
				if st := g.r.Status(); st.Lookups != 1 {
					t.Errorf("%d look-ups", st.Lookups)
				}
				g.stop()
			})
		})
	}
}

func TestVerifyHook(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		calls, reason, fail := 0, reflector.Reason(""), error(nil)
		o := reflector.Options{Verify: func(context.Context, time.Time) (reflector.Reason, error) {
			g.barrier()
			calls++
			if slices.Contains(g.m.lines(), "BEGIN ClusterChanged") {
				return "", nil
			}
			return reason, fail
		}}
		g.start(o)
		if calls != 1 {
			t.Errorf("%d calls for a cold start", calls)
		}
		g.restart(func() { fail = errRefused }, o)
		if st := g.r.Status(); !errors.Is(st.Err, errRefused) || st.Watches != 0 || st.State != reflector.Backoff {
			t.Errorf("status %+v", st)
		}
		fail = nil
		g.sleep(time.Second)
		g.wantNoList()
		if g.r.Status().Err != nil {
			t.Errorf("still %v", g.r.Status().Err)
		}
		reason = reflector.ReasonCluster
		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.sleep(5 * time.Second)
		g.wantRelist(reflector.ReasonCluster)
		g.stop()
	})
}

// TestLookupAheadOfTheProbe checks that an object above the probed resourceVersion does not show a restored server.
func TestLookupAheadOfTheProbe(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			g.s.other(3)
			g.s.onList = func(r request) (runtime.Object, error) {
				if r.FieldSelector == "" {
					return nil, nil
				}
				cm := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: "a", Name: "x", UID: "uid-1", ResourceVersion: "107",
				}}
				return &corev1.ConfigMapList{Items: []corev1.ConfigMap{cm}}, nil
			}
		}, reflector.Options{})
		g.sleep(1500 * time.Millisecond)
		if g.m.syncs() != 0 {
			t.Error("synced at the probe's resourceVersion")
		}
		g.s.other(2)
		g.s.put("a/x", "2") // its resourceVersion is 107, like the looked-up object's
		g.sleep(time.Second)
		g.wantNoList()
		if g.m.syncs() != 1 {
			t.Errorf("%d syncs", g.m.syncs())
		}
		g.stop()
	})
}

// TestVerifyBeforeAList checks that the reason that Options.Verify returns replaces the reason of a due list, if only
// Verify's reason requires that every stored object is replaced.
func TestVerifyBeforeAList(t *testing.T) {
	tests := []struct {
		due, verify, want reflector.Reason
	}{
		{reflector.ReasonStore, reflector.ReasonCluster, reflector.ReasonCluster},
		{reflector.ReasonCodec, reflector.ReasonCluster, reflector.ReasonCodec},
		{reflector.ReasonCold, reflector.ReasonCluster, reflector.ReasonCold},
	}
	for _, tt := range tests {
		bubble(t, func(g *rig) {
			g.m.cp = &reflector.Checkpoint{Relist: tt.due}
			g.start(reflector.Options{Verify: func(context.Context, time.Time) (reflector.Reason, error) {
				return tt.verify, nil
			}})
			if l := g.m.lines(); l[0] != "BEGIN "+string(tt.want) {
				t.Errorf("%s due, Verify says %s: sink calls %q", tt.due, tt.verify, l)
			}
			g.stop()
		})
	}
}
