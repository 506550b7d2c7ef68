package serve

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

const (
	// writesKept is the maximum number of recorded writers; a new one replaces the oldest.
	writesKept = 1000
	// writeKept is how long an entry is kept. A response from a collection that has not reached the write by then
	// carries a Warning of its age.
	writeKept = time.Minute
)

// writes records the writes forwarded to the API server for a minute, so that users read no state older than their own
// writes. It is safe for concurrent use.
type writes struct {
	mu   sync.Mutex
	last map[writer]write // guarded by mu
}

// writer is a user and a resource that the user has written. An empty name stands for all users, if users are not
// distinguished.
type writer struct {
	user     string
	resource schema.GroupResource
}

// write is a writer's latest writes.
type write struct {
	namespace string    // of the objects; empty for several namespaces, and for cluster-scoped objects
	rv        uint64    // the highest resourceVersion of a response; 0 if none had one
	at        time.Time // time of the write with rv
	unknown   time.Time // time of the latest write without a known resourceVersion
}

// ended reports whether reads no longer depend on the entry.
func (w write) ended(now time.Time) bool {
	return (w.rv == 0 || now.Sub(w.at) > writeKept) && !w.unknownAt(now)
}

// unknownAt reports whether the collection may lack a write whose resourceVersion is unknown.
func (w write) unknownAt(now time.Time) bool { return now.Sub(w.unknown) < freshFor }

// newWriter returns the writer for requests to a resource. Events of both groups are one resource, and bindings are
// pods.
func newWriter(user string, r schema.GroupResource) writer {
	switch {
	case r == schema.GroupResource{Group: "events.k8s.io", Resource: "events"}:
		r.Group = ""
	case r == schema.GroupResource{Resource: "bindings"}: // a binding changes its pod
		r.Resource = "pods"
	}
	return writer{user, r}
}

// add records a write. rv is 0 if unknown.
func (s *writes) add(by writer, namespace string, rv uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, known := s.last[by]
	if known = known && !w.ended(now); !known {
		w = write{namespace: namespace}
		s.evictLocked(now)
	}
	if w.namespace != namespace {
		w.namespace = ""
	}
	switch {
	case rv == 0:
		w.unknown = now
	case rv > w.rv:
		w.rv, w.at = rv, now
	}
	if s.last == nil {
		s.last = map[writer]write{}
	}
	s.last[by] = w
}

// evictLocked drops ended entries, or the oldest entry if none has ended, so that a new entry fits. The collections
// have most likely reached the oldest write.
func (s *writes) evictLocked(now time.Time) {
	if len(s.last) < writesKept {
		return
	}
	var oldest writer
	age := time.Duration(-1)
	for by, w := range s.last {
		if w.ended(now) {
			delete(s.last, by)
		} else if a := min(now.Sub(w.at), now.Sub(w.unknown)); a > age {
			oldest, age = by, a
		}
	}
	if len(s.last) >= writesKept {
		delete(s.last, oldest)
	}
}

// get returns a writer's entry if it concerns objects in the namespace; empty means all namespaces.
func (s *writes) get(by writer, namespace string, now time.Time) (w write, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok = s.last[by]; ok && w.ended(now) {
		delete(s.last, by)
		ok = false
	}
	return w, ok && (namespace == "" || w.namespace == "" || namespace == w.namespace)
}

// forget drops a writer's entry.
func (s *writes) forget(by writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, by)
}

// receivesEvents reports whether the collection receives an event for every write in a namespace, and with it the
// write's resourceVersion. A collection of selected objects may reach that resourceVersion only with a bookmark.
func receivesEvents(id entry.Identity, namespace string) bool {
	return id.LabelSelector == "" && id.FieldSelector == "" && (id.Namespace == "" || id.Namespace == namespace)
}

// readsLatest reports whether the client asks for the latest state: without a resourceVersion or continue token.
func (q *request) readsLatest() bool {
	return q.r.URL.Query().Get("resourceVersion") == "" && q.options.token == nil
}

// behind reports whether the collection lacks a forwarded write of the user. It waits for the write until freshFor
// after it was made.
func (q *request) behind() (bool, error) {
	by := newWriter(q.lease.user, q.path.GroupResource())
	w, ok := q.writes.get(by, q.path.namespace, time.Now())
	if !ok {
		return false, nil
	}
	if w.unknownAt(time.Now()) {
		return true, nil
	}
	until := w.at.Add(freshFor)
	if !receivesEvents(q.collection.Identity, w.namespace) {
		until = w.at
	}
	ctx, cancel := context.WithDeadline(q.ctx, until)
	defer cancel()
	if awaitRV(ctx, q.collection, q.reader, w.rv) == nil {
		return false, nil // keep the entry: another collection of the resource may lack the write
	}
	return true, context.Cause(q.ctx)
}
