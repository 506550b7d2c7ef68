package reflector_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

type hook struct {
	// bad is the number of the next calls that hang or panic.
	bad atomic.Int32
	// panics is true if these calls panic, and false if they hang.
	panics   bool
	calls    atomic.Int32
	released chan struct{}
}

func newHook(bad int32, panics bool) *hook {
	h := &hook{panics: panics, released: make(chan struct{})}
	h.bad.Store(bad)
	return h
}

func (h *hook) call() {
	h.calls.Add(1)
	if h.bad.Add(-1) < 0 {
		return
	}
	if h.panics {
		panic("asked to panic")
	}
	<-h.released
}

func (h *hook) options() reflector.Options {
	return reflector.Options{Verify: func(context.Context, time.Time) (reflector.Reason, error) {
		h.call()
		return "", nil
	}}
}

func (g *rig) end() {
	g.t.Helper()
	begun := time.Now()
	g.cancel()
	if err := <-g.done; err != nil {
		g.t.Errorf("Run: %v", err)
	}
	if took := time.Since(begun); took > callWait {
		g.t.Errorf("Run took %v to end", took)
	}
}

// TestHooksThatHang checks that a call of Verify that never returns is an error after its time-out, and does not keep
// Run from ending. (issue 3)
func TestHooksThatHang(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.stop()
		h := newHook(2, false)
		g.startOn(g.s, h.options())
		g.sleep(requestTimeout + callWait + 100*time.Millisecond)
		if st := g.r.Status(); !errors.Is(st.Err, reflector.ErrOverdue) ||
			!strings.Contains(st.Err.Error(), "has not returned for 1m35s") {
			t.Errorf("overdue: status %+v", st)
		}
		g.sleep(5 * time.Minute)
		if st := g.r.Status(); st.Err != nil || st.State != reflector.Watch || len(g.errs) != 2 || h.calls.Load() != 3 {
			t.Errorf("the third call returned: status %+v, errors %v, %d calls", st, g.errs, h.calls.Load())
		}
		h.bad.Store(1)
		g.s.cut(apierrors.NewInternalError(errors.New("boom")))
		g.sleep(10 * time.Second)
		g.end()
		close(h.released)
		synctest.Wait()
	})
}

func TestHookThatNeverReturns(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		h := newHook(1000, false)
		g.startOn(g.s, h.options())
		g.sleep(10 * time.Hour)
		if n := h.calls.Load(); n < 2 || n > 10 {
			t.Errorf("%d calls hang", n)
		}
		if st := g.r.Status(); !errors.Is(st.Err, reflector.ErrOverdue) {
			t.Errorf("status %+v", st)
		}
		h.bad.Store(0)
		close(h.released)
		g.sleep(time.Minute)
		g.converged()
		g.end()
	})
}

func TestHooksThatPanic(t *testing.T) {
	defer func(was bool) { utilruntime.ReallyCrash = was }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.stop()
		g.startOn(g.s, newHook(1, true).options())
		g.sleep(time.Minute)
		if st := g.r.Status(); st.Err != nil || st.State != reflector.Watch || len(g.errs) != 1 ||
			!errors.Is(g.errs[0], reflector.ErrPanicked) {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.end()
	})
}

type badStop struct {
	watch.Interface
	h *hook
}

func (b badStop) Stop() {
	b.h.call()
	b.Interface.Stop()
}

// TestStop checks that a Stop that never returns, or panics, delays neither the next watch nor the end of Run.
func TestStop(t *testing.T) {
	defer func(was bool) { utilruntime.ReallyCrash = was }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	for name, panics := range map[string]bool{"hangs": false, "panics": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				h := newHook(1000, panics)
				var watches []watch.Interface
				g.s.onWatch = func(ctx context.Context, r request) (watch.Interface, error) {
					w, err := g.s.watch(context.Background(), r)
					watches = append(watches, w)
					return badStop{w, h}, err
				}
				g.startOn(g.s, reflector.Options{})
				g.s.cut(apierrors.NewInternalError(errors.New("boom")))
				g.s.put("a/x", "2")
				g.sleep(20 * time.Second)
				g.converged()
				if st := g.r.Status(); st.State != reflector.Watch || st.Err != nil || st.Watches < 2 {
					t.Errorf("status %+v", st)
				}
				g.end()
				close(h.released)
				for _, w := range watches {
					w.Stop()
				}
				synctest.Wait()
			})
		})
	}
}

// TestStopOfALateWatch checks that a watch that opens after its request was abandoned is stopped.
func TestStopOfALateWatch(t *testing.T) {
	defer func(was bool) { utilruntime.ReallyCrash = was }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		h := newHook(1, true)
		released := make(chan struct{})
		g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
			<-released
			return badStop{watch.NewFake(), h}, nil
		}
		g.startOn(g.s, reflector.Options{})
		g.end()
		close(released)
		synctest.Wait()
		if h.calls.Load() != 1 {
			t.Error("the watch was not stopped")
		}
	})
}
