package delivery

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

type doneNow struct{}

func (doneNow) Name() string { return "test" }
func (doneNow) Done() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}

func handlerOf(fn func(obj any)) *Listener {
	return New(cache.ResourceEventHandlerFuncs{DeleteFunc: fn}, logr.Discard(), clock.RealClock{}, doneNow{}, noPages{})
}

type noPages struct{}

func (noPages) NextPage(*Listener)           {}
func (noPages) NextResync(*Listener)         {}
func (noPages) Called(string, time.Duration) {}

func TestHandlerCrash(t *testing.T) {
	handlers := utilruntime.PanicHandlers
	utilruntime.PanicHandlers = nil // the default panic handlers would print the panic
	defer func() { utilruntime.PanicHandlers = handlers }()
	l := handlerOf(func(any) { panic("from the test") })
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	l.deliver(Call{Type: cache.Deleted, Old: cache.DeletedFinalStateUnknown{Key: "a/1"}})
}
