package informer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store/consumer"
)

// TestDurableHandlerRemovedDuringACall checks that the informer's Run waits for the running call of a removed handler.
func TestDurableHandlerRemovedDuringACall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		var returned atomic.Bool
		i := r.open()
		reg, err := i.Durable().Add("h", durable.Handler{OnChange: func(context.Context,
			consumer.Change) error {
			time.Sleep(time.Minute)
			returned.Store(true)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		r.waitIdle()
		if err := i.RemoveEventHandler(reg); err != nil {
			t.Fatal(err)
		}
		if s := i.Status().Durable; len(s) != 0 {
			t.Errorf("status %+v", s)
		}
		r.stop()
		if !returned.Load() {
			t.Error("Run has returned, and the handler has not")
		}
		r.close()
	})
}

// TestDurableHandlerIsShutDown checks that cache.ShutDownEventHandler waits for the running call of a durable handler,
// and that Forget can then delete the handler's stored position.
func TestDurableHandlerIsShutDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		i := r.open()
		reg, err := i.Durable().Add("h", durable.Handler{OnChange: func(context.Context,
			consumer.Change) error {
			time.Sleep(time.Minute)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		q := addQueue(t, i)
		defer q.ShutDown()
		r.run()
		r.waitIdle()
		for name, handle := range map[string]cache.ResourceEventHandlerRegistration{"h": reg, "queue": q} {
			if err := cache.ShutDownEventHandler(i, handle); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := i.Durable().Forget(t.Context(), name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		synctest.Wait()
		r.close()
	})
}
