package reflector

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/guest"
)

// callWait is how long a call may go on after its context has ended.
const callWait = 5 * time.Second

// MaxStop is how long Run may take to return after its context has ended, if the ListerWatcher does not heed it.
const MaxStop = 3 * callWait

// listerWatcher makes the calls to the user's ListerWatcher. Not all of those heed their context (a cache.ListWatch
// with a ListFunc has none to heed), and some panic; neither may keep Run from ending. A call that heeds neither ctx
// nor its time-out is told to overdue, and waited for as long as ctx lasts: to make more of them would only pile them
// up.
type listerWatcher struct {
	lw cache.ListerWatcherWithContext
}

// list makes a list request; limited is ctx with a time-out.
func (l listerWatcher) list(
	ctx, limited context.Context, o metav1.ListOptions, overdue func(error),
) (runtime.Object, error) {
	g := guest.Guest[runtime.Object]{What: "list", Wait: callWait, Overdue: overdue}
	return g.Call(ctx, limited, func(ctx context.Context) (runtime.Object, error) { return l.lw.ListWithContext(ctx, o) })
}

// watch asks for a watch that lives as long as limited.
func (l listerWatcher) watch(
	ctx, limited context.Context, o metav1.ListOptions, overdue func(error),
) (watch.Interface, error) {
	g := guest.Guest[watch.Interface]{What: "watch", Wait: callWait, Overdue: overdue, Drop: watch.Interface.Stop}
	return g.Call(ctx, limited, func(ctx context.Context) (watch.Interface,
		error) {
		return l.lw.WatchWithContext(ctx, o)
	})
}

// tells returns what to do with the error of a call that is overdue: it is reported, and waited for all the same, but
// holds up no other reflector. For the calls that the session's own goroutine waits for.
func (s *session) tells(ctx context.Context, what string) func(error) {
	return func(err error) {
		s.report(ctx, s.describe(what, err))
		s.yield()
	}
}
