package informer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store/consumer"
)

type durableRecorder struct {
	mu    sync.Mutex
	lines []string
	fails map[string]int // fails has the number of calls that still fail, by key
	hook  func(ctx context.Context, c consumer.Change) error
}

func (r *durableRecorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *durableRecorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.lines = nil }()
	return r.lines
}

var errRefused = errors.New("refused")

func (r *durableRecorder) handler() durable.Handler {
	return durable.Handler{OnChange: r.change, OnReset: r.reset, OnReplayed: r.replayed}
}

func (r *durableRecorder) change(ctx context.Context, c consumer.Change) error {
	if r.hook != nil {
		if err := r.hook(ctx, c); err != nil {
			return err
		}
	}
	verb := "+"
	if c.Type == entry.Delete {
		verb = "-"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.fails[c.Key]; n > 0 {
		r.fails[c.Key]--
		r.lines = append(r.lines, "! "+c.Key)
		if n%2 == 0 {
			panic("of the handler")
		}
		return errRefused
	}
	r.lines = append(r.lines, verb+" "+describe(c.Object))
	return nil
}

func (r *durableRecorder) reset(_ context.Context, why consumer.ResetReason) error {
	r.note("reset %s", why)
	return nil
}

func (r *durableRecorder) replayed(context.Context) error {
	r.note("replayed")
	return nil
}

func (r *rig) startDurable(name string, h durable.Handler) *informer.Informer {
	r.t.Helper()
	i := r.open()
	if _, err := i.Durable().Add(name, h); err != nil {
		r.t.Fatal(err)
	}
	r.run()
	r.waitIdle()
	return i
}

func (r *rig) waitIdle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func TestDurableHandlerReceivesChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for _, key := range []string{"a/1", "a/2", "a/3", "b/1"} {
			r.srv.write(key, "x")
		}
		h := &durableRecorder{}
		r.startDurable("h", h.handler())
		lines := h.take()
		if len(lines) != 6 || lines[0] != "reset new" || !slices.Contains(lines, "replayed") {
			t.Fatalf("cold start: %q", lines)
		}
		r.srv.write("a/1", "y")
		r.srv.write("a/1", "z")
		r.srv.delete("a/2")
		r.waitIdle()
		equal(t, "watch", h.take(), []string{"+ a/1@106=z", "- a/2@107=x"})
		r.close()

		r.srv.write("a/3", "y")
		r.srv.delete("b/1")
		r.srv.write("b/1", "again")
		h = &durableRecorder{}
		i := r.startDurable("h", h.handler())
		equal(t, "restart", h.take(), []string{"+ a/3@108=y", "- b/1@109=x", "+ b/1@110=again"})
		if s := i.Status().Durable; len(s) != 1 || s[0].Name != "h" || s[0].Failing != 0 || s[0].Err != nil {
			t.Errorf("status %+v", s)
		}
		r.close()

		h = &durableRecorder{}
		r.startDurable("h", h.handler())
		equal(t, "a restart without a change", h.take(), nil)
		r.close()
	})
}

// TestDurableHandlerAfterAnExpiredWatch checks that an object that a list lacks is delivered as a delete with its last
// stored state.
func TestDurableHandlerAfterAnExpiredWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for _, key := range []string{"a/1", "a/2", "a/3"} {
			r.srv.write(key, "x")
		}
		r.startDurable("h", (&durableRecorder{}).handler())
		r.close()
		r.srv.write("a/1", "y")
		r.srv.delete("a/2")
		r.srv.compact()
		h := &durableRecorder{}
		r.startDurable("h", h.handler())
		equal(t, "restart", h.take(), []string{"- a/2@102=x", "+ a/1@104=y"})
		r.close()
	})
}

// TestDurableHandlerRetries checks that a failing call delays no other key, and is retried before later changes of its
// key, also after a restart.
func TestDurableHandlerRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		h := &durableRecorder{}
		r.startDurable("h", h.handler())
		h.take()
		h.fails = map[string]int{"a/1": 3}
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		time.Sleep(1050 * time.Millisecond)
		synctest.Wait()
		if got := h.take(); !slices.Contains(got, "+ a/2@102=x") || slices.Contains(got, "+ a/1@101=x") {
			t.Errorf("while it fails: %q", got)
		}
		r.srv.write("a/1", "y")
		r.waitIdle()
		got := h.take()
		if last := got[len(got)-1]; last != "+ a/1@103=y" {
			t.Errorf("then: %q", got)
		}
		h.fails = map[string]int{"a/1": 1000, "a/2": 1000}
		r.srv.write("a/1", "z")
		r.srv.delete("a/2")
		r.srv.write("a/3", "x")
		r.waitIdle()
		if s := r.i.Status().Durable[0]; s.Failing != 2 || s.Err == nil || s.Stalled {
			t.Errorf("status %+v", s)
		}
		r.close()

		h = &durableRecorder{}
		r.startDurable("h", h.handler())
		got = h.take()
		slices.Sort(got)
		equal(t, "after a restart", got, []string{"+ a/1@104=z", "- a/2@105=x"})
		r.close()
	})
}

// TestDurableHandlersAreIndependent checks that a blocked durable handler delays no other handler. Its change is
// delivered again after a restart, because its call returned only after the end of the run.
func TestDurableHandlersAreIndependent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		slow := &durableRecorder{hook: func(ctx context.Context, _ consumer.Change) error {
			<-ctx.Done()
			return nil // a call that returns after the end of the run is not acknowledged
		}}
		fast := &durableRecorder{}
		i := r.open()
		for name, h := range map[string]durable.Handler{"slow": slow.handler(), "fast": fast.handler()} {
			if _, err := i.Durable().Add(name, h); err != nil {
				t.Fatal(err)
			}
		}
		r.run()
		r.srv.write("a/1", "x")
		r.waitIdle()
		equal(t, "fast", fast.take(), []string{"reset new", "replayed", "+ a/1@101=x"})
		r.close()

		h := &durableRecorder{}
		r.startDurable("slow", h.handler())
		equal(t, "the slow one at the next start", h.take(), []string{"+ a/1@101=x"})
		r.close()
	})
}

func TestDurableHandlerNeedsAFile(t *testing.T) {
	i, err := informer.New(newServer(), &corev1.Pod{}, informer.Options{Identity: podsIdentity, InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Durable().Add("h", durable.Handler{}); !errors.Is(err, durable.ErrInMemory) {
		t.Errorf("in memory: %v", err)
	}
}

func TestDurableHandlerSyncs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		seen := map[string]runtime.Object{}
		i := r.open()
		reg, err := i.Durable().Add("h", durable.Handler{OnChange: func(_ context.Context,
			c consumer.Change) error {
			seen[c.Key] = c.Object
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		<-reg.HasSyncedChecker().Done()
		if len(seen) != 1 || !i.HasSynced() {
			t.Errorf("synced: told of %v, the informer %t", slices.Collect(maps.Keys(seen)), i.HasSynced())
		}
		if err := i.RemoveEventHandler(reg); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := i.Durable().Forget(t.Context(), "h"); err != nil {
			t.Fatal(err)
		}
		if err := i.Durable().Forget(t.Context(), "h"); !errors.Is(err, consumer.ErrNone) {
			t.Errorf("forgotten twice: %v", err)
		}
		r.close()
	})
}

// TestDurableStatusAfterARestart checks that a durable handler without new changes shows no lag.
func TestDurableStatusAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.startDurable("h", (&durableRecorder{}).handler())
		r.close()
		i := r.startDurable("h", (&durableRecorder{}).handler())
		if s := i.Status().Durable[0]; s.Behind != 0 || s.Seq == 0 {
			t.Errorf("nothing has changed, and the status is %+v", s)
		}
		r.close()
	})
}

// TestDurableHandlerThatReturnsAtTheEnd checks that a call that returns after the end of the run is not acknowledged:
// OnReset, a retried change, and a change that is delivered after a restart.
func TestDurableHandlerThatReturnsAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		untilTheEnd := func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}
		r.startDurable("h", durable.Handler{OnReset: func(ctx context.Context,
			_ consumer.ResetReason) error {
			return untilTheEnd(ctx)
		}})
		r.close()
		var tries atomic.Int32
		h := &durableRecorder{hook: func(ctx context.Context, _ consumer.Change) error {
			if tries.Add(1) == 1 {
				return errRefused
			}
			return untilTheEnd(ctx)
		}}
		r.startDurable("h", h.handler())
		equal(t, "after OnReset that did not end", h.take(), []string{"reset new", "replayed"})

		r.srv.write("a/1", "x")
		r.waitIdle()
		if n := tries.Load(); n != 2 {
			t.Fatalf("%d tries", n)
		}
		r.close()
		for _, restart := range []string{"repeated until the end", "received after the restart until the end"} {
			h = &durableRecorder{hook: func(ctx context.Context, _ consumer.Change) error { return untilTheEnd(ctx) }}
			r.startDurable("h", h.handler())
			r.close()
			equal(t, restart, h.take(), []string{"+ a/1@101=x"})
		}
		h = &durableRecorder{}
		r.startDurable("h", h.handler())
		equal(t, "at last", h.take(), []string{"+ a/1@101=x"})
		r.close()
	})
}
