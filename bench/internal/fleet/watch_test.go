package fleet

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

type stream struct {
	s *server
	// rv is the resourceVersion after which the stream begins. With initial, the stream begins with all objects instead.
	rv      int64
	initial bool
	// accepted is called if the server still has the history after rv, so that it accepts the watch.
	accepted func()
	// end is the time at which the server ends the watch. A broken connection ends the watch earlier.
	end     time.Time
	broken  <-chan struct{}
	stopped <-chan struct{}
	results chan<- watch.Event
}

func (s *server) watch(st stream) watch.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(results)
	st.s, st.broken, st.stopped, st.results = s, s.broken, proxy.StopChan(), results
	go st.run(s.oldest)
	return proxy
}

func (st stream) run(oldest int64) {
	defer close(st.results)
	next, ok := st.begin(oldest)
	if !ok {
		return
	}
	end, bookmark := time.NewTimer(time.Until(st.end)), time.NewTimer(st.untilBookmark())
	defer end.Stop()
	defer bookmark.Stop()
	for mark := false; ; {
		at := st.s.now()
		for ; next <= st.s.changes(at); next++ {
			st.s.count(tally{Bytes: eventBytes})
			if !st.send(watch.Modified, st.s.changed(next)) {
				return
			}
		}
		if mark {
			if !st.send(watch.Bookmark, bookmarkAt(st.s.rv(at), nil)) {
				return
			}
			mark = false
			bookmark.Reset(st.untilBookmark())
		}
		select {
		case <-st.stopped:
			return
		case <-st.broken:
			return
		case <-end.C:
			return
		case <-time.After(st.s.due(next)):
		case <-bookmark.C:
			mark = true
		}
	}
}

// begin sends the initial events of a watch. It returns the number of the next change to send, or false at the end of
// the stream.
func (st stream) begin(oldest int64) (next int, ok bool) {
	at := st.s.now()
	switch {
	case st.initial:
		for _, obj := range st.s.objects(at, 0, kept) {
			if !st.send(watch.Added, obj) {
				return 0, false
			}
		}
		ended := map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		return st.s.changes(at) + 1, st.send(watch.Bookmark, bookmarkAt(st.s.rv(at), ended))
	case st.rv < oldest:
		status := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", st.rv, oldest)).Status()
		st.send(watch.Error, &status)
		return 0, false
	}
	st.accepted()
	return st.s.next(st.rv), true
}

// untilBookmark returns the time to the next bookmark. Bookmarks are sent about once a minute, and about two seconds
// before the end of the watch.
func (st stream) untilBookmark() time.Duration {
	left := time.Until(st.end) - 2*time.Second
	if left <= 0 {
		return time.Hour
	}
	return min(left, time.Minute+rand.N(time.Second))
}

func bookmarkAt(rv int64, annotations map[string]string) runtime.Object {
	return &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(rv, 10), Annotations: annotations},
	}
}

func (st stream) send(t watch.EventType, obj runtime.Object) bool {
	select {
	case st.results <- watch.Event{Type: t, Object: obj}:
		return true
	case <-st.stopped:
	case <-st.broken:
	}
	return false
}
