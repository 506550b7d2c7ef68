package reflector

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/base"
)

// callWait is how long a call of a ListerWatcher may outlive its context before it is reported as overdue.
const callWait = 5 * time.Second

// requestsOf returns the requests that call lw. by is notified of the progress of their HTTP requests.
func requestsOf(lw cache.ListerWatcherWithContext, by awaiter) requests { return requests{lw, by} }

// requests makes the calls to the user's ListerWatcher. Some ListerWatchers ignore their context (a cache.ListWatch
// with a ListFunc does not receive one), and some panic; neither may keep a run from ending. A call that continues
// after its time-out is reported to overdue and waited for until ctx ends, because further calls would only pile up.
type requests struct {
	lw cache.ListerWatcherWithContext
	by awaiter
}

// List makes one list request with the time-out within. Any goroutine may call List. If the request outlives its
// time-out, List calls overdue on the same goroutine and keeps waiting.
func (l requests) List(
	ctx context.Context, within time.Duration, o metav1.ListOptions, overdue func(error),
) (runtime.Object, metav1.ListInterface, error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var a answers
	awaited, ended := awaitAnswer(limited, l.by)
	defer ended()
	g := base.Guest[runtime.Object]{What: "list", Wait: callWait, Overdue: overdue}
	list, err := g.Call(ctx, a.count(awaited), func(ctx context.Context) (runtime.Object, error) {
		return l.lw.ListWithContext(ctx, o)
	})
	if err != nil {
		return nil, nil, a.explain(err)
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, nil, fmt.Errorf("the answer to a list request is no list: %w", err)
	}
	if u, ok := list.(*unstructured.UnstructuredList); ok && !isList(u) {
		return nil, nil, fmt.Errorf("%w, but of the kind %q", errNoList, u.GetKind())
	}
	return list, m, nil
}

var errNoList = errors.New("the answer to a list request is no list: it has no items")

// isList reports whether the answer was a list. The dynamic client makes an empty list of any other object, such as a
// Table from a proxy (kubernetes#132926), and the store would delete every object for that list. isList does not know
// whether the answer had items; package wire does.
func isList(l *unstructured.UnstructuredList) bool {
	if len(l.Items) > 0 {
		return true
	}
	// These are members of a Table, a Status or a single object.
	for _, member := range []string{"columnDefinitions", "rows", "status", "spec"} {
		if _, has := l.Object[member]; has {
			return false
		}
	}
	_, named, _ := unstructured.NestedFieldNoCopy(l.Object, "metadata", "name")
	return !named
}

// Watch requests a watch with the context limited. If the call outlives its time-out, Watch calls overdue and keeps
// waiting until ctx ends.
func (l requests) Watch(
	ctx, limited context.Context, o metav1.ListOptions, overdue func(error),
) (watch.Interface, error) {
	awaited, ended := awaitAnswer(limited, l.by)
	defer ended()
	g := base.Guest[watch.Interface]{What: "watch", Wait: callWait, Overdue: overdue, Drop: watch.Interface.Stop}
	return g.Call(ctx, awaited, func(ctx context.Context) (watch.Interface, error) {
		return l.lw.WatchWithContext(ctx, o)
	})
}

// awaiter is notified of the progress of HTTP requests.
type awaiter interface {
	// awaitAnswer is called when an HTTP request begins. The returned function is called when the first byte of the answer
	// has arrived, or when the request has ended.
	Await() (answered func())
	GotConn()
}

// awaiting is the state of one call of a ListerWatcher, which may make several HTTP requests, one after the other.
type awaiting struct {
	by awaiter

	mu sync.Mutex
	// ended is true once the ListerWatcher's call has returned. mu guards ended.
	ended bool
	// answered is the result of awaiter.Await; nil while no answer is awaited. mu guards answered.
	answered func()
}

// awaitAnswer returns the context for a call that makes HTTP requests, and reports these requests to by. A request
// begins when the client's rate limiter has admitted it. The caller must call ended when the call has returned.
func awaitAnswer(ctx context.Context, by awaiter) (_ context.Context, ended func()) {
	a := &awaiting{by: by}
	trace := &httptrace.ClientTrace{
		GetConn:              func(string) { a.begin() },
		GotConn:              func(httptrace.GotConnInfo) { by.GotConn() },
		GotFirstResponseByte: a.firstByte,
	}
	return httptrace.WithClientTrace(ctx, trace), a.end
}

func (a *awaiting) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered == nil && !a.ended {
		a.answered = a.by.Await()
	}
}

func (a *awaiting) firstByte() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered != nil {
		a.answered()
		a.answered = nil
	}
}

// end is called when the ListerWatcher's call has returned. A watch keeps using the call's context, but its further
// requests are not reported.
func (a *awaiting) end() {
	a.firstByte()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}
