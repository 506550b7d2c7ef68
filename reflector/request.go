package reflector

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// callWait is how long a call may go on after its context has ended.
const callWait = 5 * time.Second

// MaxStop is how long Run may take to return after its context has ended, if the ListerWatcher does not heed it.
const MaxStop = 3 * callWait

// ErrPanicked: the ListerWatcher panicked, and utilruntime.ReallyCrash is off.
var ErrPanicked = errors.New("the ListerWatcher panicked; the log has the stack")

// listerWatcher makes the calls to the user's ListerWatcher. Not all of those heed their context (a
// cache.ListWatch with a ListFunc has none to heed), and some panic; neither may keep Run from ending.
type listerWatcher struct {
	lw cache.ListerWatcherWithContext
}

// list makes a list request; limited is ctx with a time-out. A call that heeds neither is waited
// for as long as ctx lasts: to make more of them would only pile them up.
func (l listerWatcher) list(ctx, limited context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return call(ctx, "list",
		func() (runtime.Object, error) { return l.lw.ListWithContext(limited, o) },
		func(runtime.Object) {})
}

// watch asks for a watch that lives as long as limited, likewise.
func (l listerWatcher) watch(ctx, limited context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return call(ctx, "watch",
		func() (watch.Interface, error) { return l.lw.WatchWithContext(limited, o) },
		func(w watch.Interface) { w.Stop() })
}

// call calls fn and waits for it; once ctx has ended, for callWait. What an fn that was left alone
// returns at last is given to drop.
func call[T any](ctx context.Context, what string, fn func() (T, error), drop func(T)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer)
	left := make(chan struct{})
	go func() {
		a := answer{err: ErrPanicked}
		defer func() {
			select {
			case answers <- a:
			case <-left:
				if a.err == nil {
					drop(a.v)
				}
			}
		}()
		defer utilruntime.HandleCrashWithContext(ctx)
		a.v, a.err = fn()
	}()
	var late <-chan time.Time
	done := ctx.Done()
	for {
		select {
		case a := <-answers:
			return a.v, a.err
		case <-done:
			timer := time.NewTimer(callWait)
			defer timer.Stop()
			late, done = timer.C, nil
		case <-late:
			close(left)
			klog.FromContext(ctx).Info("The ListerWatcher does not heed its context; its call is left to itself", "call", what, "after", callWait)
			var none T
			return none, context.Cause(ctx)
		}
	}
}
