package fleet

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is an open watch.
type watcher struct {
	s      *server
	rv     int64 // up to which all has been sent
	end    time.Time
	broken chan struct{}
	// initial: it begins with all objects.
	initial bool
	// accepted is called if the server still has the history of one that does not.
	accepted func()

	results chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (s *server) newWatcher(rv int64, initial bool, timeout time.Duration, accepted func()) *watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watcher{
		s: s, rv: rv, initial: initial, accepted: accepted, end: time.Now().Add(timeout), broken: s.broken,
		results: make(chan watch.Event), stopped: make(chan struct{}),
	}
	go w.run()
	return w
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.once.Do(func() { close(w.stopped) }) }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

func (w *watcher) run() {
	defer close(w.results)
	if !w.begin() {
		return
	}
	end := time.NewTimer(time.Until(w.end))
	defer end.Stop()
	bookmark := time.NewTimer(w.untilBookmark())
	defer bookmark.Stop()
	mark := false
	for {
		events, changed := w.due(mark)
		for _, ev := range events {
			if !w.send(ev) {
				return
			}
		}
		if mark {
			mark = false
			bookmark.Reset(w.untilBookmark())
		}
		select {
		case <-w.stopped:
			return
		case <-w.broken:
			return
		case <-end.C:
			return
		case <-changed:
		case <-bookmark.C:
			mark = true
		}
	}
}

// begin sends what a watch begins with; false if that is its end.
func (w *watcher) begin() bool {
	w.s.mu.Lock()
	expired, oldest := w.rv < w.s.oldest && !w.initial, w.s.oldest
	state := slices.Clone(w.s.objects)
	if w.initial {
		w.rv = w.s.rvLocked()
	}
	w.s.mu.Unlock()
	switch {
	case expired:
		status := apierrors.NewResourceExpired("too old resource version: " + strconv.FormatInt(w.rv, 10) + " (" + strconv.FormatInt(oldest, 10) + ")").Status()
		w.send(watch.Event{Type: watch.Error, Object: &status})
		return false
	case !w.initial:
		w.accepted()
		return true
	}
	for _, obj := range state {
		if !w.send(watch.Event{Type: watch.Added, Object: obj}) {
			return false
		}
	}
	return w.send(bookmark(w.rv, map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
}

// due are the changes that have not been sent, and a bookmark if it is asked for; and what is closed with the next change.
func (w *watcher) due(mark bool) (events []watch.Event, changed <-chan struct{}) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	from := len(s.history)
	for from > 0 && number(s.history[from-1]) > w.rv {
		from--
	}
	for _, obj := range s.history[from:] {
		events = append(events, watch.Event{Type: watch.Modified, Object: obj})
		w.rv = number(obj)
	}
	if !s.free {
		s.tally.Bytes += float64(len(events)) * eventBytes
	}
	if mark {
		w.rv = s.rvLocked()
		events = append(events, bookmark(w.rv, nil))
	}
	return events, s.changed
}

// untilBookmark is the time to the next: about a minute, and one about two seconds before the end.
func (w *watcher) untilBookmark() time.Duration {
	left := time.Until(w.end) - 2*time.Second
	if left <= 0 {
		return time.Hour
	}
	return min(left, time.Minute+rand.N(time.Second))
}

// bookmark says that all up to rv has been sent.
func bookmark(rv int64, annotations map[string]string) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(rv, 10), Annotations: annotations},
	}}
}

// send reports whether the event was taken.
func (w *watcher) send(ev watch.Event) bool {
	select {
	case w.results <- ev:
		return true
	case <-w.stopped:
	case <-w.broken:
	}
	return false
}

// number is an object's resourceVersion.
func number(obj *metav1.PartialObjectMetadata) int64 {
	n, _ := strconv.ParseInt(obj.ResourceVersion, 10, 64)
	return n
}
