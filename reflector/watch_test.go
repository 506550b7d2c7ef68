package reflector_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
)

func TestShortWatchesBackOff(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			g.s.onWatch = func(ctx context.Context, r request) (watch.Interface, error) {
				w, err := g.s.watch(ctx, r)
				ow := w.(*openWatch)
				g.s.mu.Lock()
				ow.ended = true
				g.s.mu.Unlock()
				return w, err
			}
		}, reflector.Options{})
		g.sleep(10 * time.Minute)
		st := g.r.Status()
		if st.Watches < 15 || st.Watches > 150 || st.Lists != 0 {
			t.Errorf("status %+v", st)
		}
		if !errors.Is(g.errs[0], reflector.ErrShortWatch) || !strings.Contains(g.errs[0].Error(), "objects") {
			t.Errorf("error %v", g.errs[0])
		}
		g.stop()
	})
}

// TestEarlyEndOfAHealthyWatch checks that a random wait and look-ups follow a watch that ends before its time-out: a
// fleet must be spread, and the next server may be another server.
func TestEarlyEndOfAHealthyWatch(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.sleep(time.Minute)
		for n := range 10 {
			g.s.cut(nil)
			synctest.Wait()
			if st := g.r.Status(); st.State != reflector.Backoff || st.Watches != 1+n || st.Err != nil {
				t.Errorf("at the end: status %+v", st)
			}
			g.sleep(limiter.BackoffBase)
			if st := g.r.Status(); st.State != reflector.Watch || st.Watches != 2+n || st.Lookups != 1+n || st.Err != nil ||
				len(g.errs) != 0 {
				t.Errorf("after the wait: status %+v", st)
			}
			g.sleep(time.Minute)
		}
		g.stop()
	})
}

// TestDeadConnection checks that a half-open watch is replaced once the server's resourceVersion has changed.
func TestDeadConnection(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.s.other(1)
		g.sleep(61 * time.Second) // a bookmark arrives within this time
		g.s.mute()
		g.s.put("a/y", "1")
		g.sleep(2 * time.Minute)
		if g.m.equal(g.s) || g.r.Status().Watches != 1 {
			t.Fatal("the test tests nothing")
		}
		g.sleep(35 * time.Second)
		g.converged()
		if st := g.r.Status(); st.Lists != 1 || st.Watches < 2 || len(g.errs) != 1 ||
			!errors.Is(g.errs[0], reflector.ErrSilent) {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}

func TestSilenceIsNotDeath(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.sleep(299 * time.Second)
		if st := g.r.Status(); st.Watches != 1 || st.Probes != 1 || len(g.errs) != 0 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestSilenceWithoutBookmarks checks that a silent watch is replaced without an error if the server sends no bookmarks
// and its resourceVersion has changed.
func TestSilenceWithoutBookmarks(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.noBookmarks = true
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.s.other(1)
		g.sleep(151 * time.Second)
		if st := g.r.Status(); st.Watches != 2 || len(g.errs) != 0 || st.Err != nil {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}

// TestSlowSink checks that the time in which the Sink blocks does not count as silence of the server.
func TestSlowSink(t *testing.T) {
	bubble(t, func(g *rig) {
		slow := &slowSink{memory: g.m}
		g.s.put("a/x", "1")
		g.r = reflector.New(g.s, slow, reflector.Options{OnError: func(_ context.Context,
			err error) {
			g.errs = append(g.errs, err)
		}})
		var ctx context.Context
		ctx, g.cancel = context.WithCancel(context.Background())
		g.done = make(chan error, 1)
		go func() { g.done <- g.r.Run(ctx) }()
		synctest.Wait()
		g.s.other(1)
		g.s.put("a/y", "1")
		g.s.put("a/z", "1")
		g.sleep(250 * time.Second) // 250 seconds are longer than a watch may be silent
		if st := g.r.Status(); st.Watches != 1 || st.Probes != 0 {
			t.Errorf("status %+v", st)
		}
		g.sleep(10 * time.Minute)
		g.converged()
		g.stop()
	})
}

type slowSink struct{ *memory }

func (s *slowSink) Event(ctx context.Context, t watch.EventType, obj runtime.Object, rv string) error {
	select {
	case <-time.After(2 * time.Minute):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.memory.Event(ctx, t, obj, rv)
}

// TestOddEvents checks that events with an unexpected object or type do not advance the delivered resourceVersion.
func TestOddEvents(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{ExpectedType: &corev1.ConfigMap{}})
		g.m.forget()
		g.s.mu.Lock()
		w := g.s.watches[0]
		w.pushLocked(watch.Event{Type: watch.Modified,
			Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "500"}}})
		w.pushLocked(watch.Event{Type: watch.Modified, Object: &metav1.Status{}})
		w.pushLocked(watch.Event{Type: "BANANA",
			Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "501"}}})
		w.pushLocked(watch.Event{Type: watch.Bookmark, Object: &corev1.ConfigMap{}})
		w.pushLocked(watch.Event{Type: watch.Bookmark,
			Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "50"}}})
		w.pushLocked(watch.Event{Type: watch.Added,
			Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "norv"}}})
		g.s.mu.Unlock()
		synctest.Wait()
		g.wantLog("ADDED a/norv ")
		if st := g.r.Status(); st.Skipped != 3 || st.ResourceVersion != "101" || st.Err != nil {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

func TestErrorEventWithoutStatus(t *testing.T) {
	bubble(t, func(g *rig) {
		g.start(reflector.Options{})
		g.s.mu.Lock()
		g.s.watches[0].pushLocked(watch.Event{Type: watch.Error})
		g.s.mu.Unlock()
		g.sleep(time.Second)
		if st := g.r.Status(); st.Watches != 2 || st.Lists != 1 || len(g.errs) != 1 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}

func TestRelistOnRequest(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.m.forget()
		g.r.Relist(reflector.ReasonCodec)
		g.r.Relist(reflector.ReasonStore)
		g.r.Relist("")
		synctest.Wait()
		g.wantLog("BEGIN CodecChanged", "PAGE 1", "END 101", "SYNCED")
		g.wantRelist(reflector.ReasonCodec)
		g.stop()
	})
}

func TestRelistBeforeRun(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.stop()
		g.m.forget()
		g.s.requests = nil
		g.r = reflector.New(g.s, g.m, reflector.Options{})
		g.r.Relist(reflector.ReasonCodec)
		var ctx context.Context
		ctx, g.cancel = context.WithCancel(context.Background())
		go func() { g.done <- g.r.Run(ctx) }()
		synctest.Wait()
		g.wantLog("BEGIN CodecChanged", "PAGE 1", "END 101", "SYNCED")
		if g.m.checkpoints != 2 { // each of the two runs calls Checkpoint once
			t.Errorf("%d checkpoints", g.m.checkpoints)
		}
		g.stop()
	})
}

func TestCheckpointWantsARelist(t *testing.T) {
	tests := []struct {
		cp   reflector.Checkpoint
		want reflector.Reason
	}{
		{reflector.Checkpoint{}, reflector.ReasonCold},
		{reflector.Checkpoint{ResourceVersion: "101", Relist: reflector.ReasonTransform}, reflector.ReasonTransform},
		{reflector.Checkpoint{Relist: reflector.ReasonStore}, reflector.ReasonStore},
		{reflector.Checkpoint{ResourceVersion: "abc"}, reflector.ReasonNotResumable},
		{reflector.Checkpoint{ResourceVersion: "0"}, reflector.ReasonNotResumable},
	}
	for _, tt := range tests {
		bubble(t, func(g *rig) {
			g.s.put("a/x", "1")
			g.m.cp = &tt.cp
			g.start(reflector.Options{})
			g.wantLog("BEGIN "+string(tt.want), "PAGE 1", "END 101", "SYNCED")
			g.stop()
		})
	}
}

func TestSinkCloses(t *testing.T) {
	bubble(t, func(g *rig) {
		g.start(reflector.Options{})
		g.m.mu.Lock()
		g.m.closed = true
		g.m.mu.Unlock()
		g.s.put("a/x", "1")
		if err := <-g.done; !errors.Is(err, errSinkClosed) {
			t.Errorf("Run: %v", err)
		}
		if err := g.r.Run(context.Background()); !errors.Is(err, reflector.ErrRunTwice) {
			t.Errorf("second Run: %v", err)
		}
		g.cancel()
	})
}

func TestOpaqueVersions(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.noListRV = true
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		// A watch from "" begins with ADDED events for all objects.
		g.wantLog("BEGIN Cold", "PAGE 1", "END ", "SYNCED", "ADDED a/x ")
		if st := g.r.Status(); !st.NotResumable || st.ResourceVersion != "" {
			t.Errorf("status %+v", st)
		}
		g.s.put("a/x", "2")
		g.s.other(1)
		g.sleep(61 * time.Second)
		g.converged()
		for _, l := range g.m.lines() {
			if strings.HasPrefix(l, "BOOKMARK") {
				t.Errorf("sink calls %q", l)
			}
		}
		// A watch without a resourceVersion to resume from would miss deletions, so a list follows.
		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.s.remove("a/x")
		g.sleep(10 * time.Second)
		g.wantRelist(reflector.ReasonNotResumable)
		g.restart(func() {}, reflector.Options{})
		if st := g.r.Status(); st.Lists != 1 || len(st.Relists) != 0 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}
