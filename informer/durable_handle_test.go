package informer

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// Run waits for the call of a handler that was removed, too.
func TestDurableHandlerRemovedDuringACall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		var returned atomic.Bool
		i := r.open()
		reg, err := i.AddDurableHandler("h", DurableHandlerFuncs{ChangeFunc: func(context.Context, Change) error {
			time.Sleep(time.Minute)
			returned.Store(true)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		r.settle()
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
