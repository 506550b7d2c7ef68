package serve

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

const (
	// writesKept is the maximum number of writers (a user and a resource). A new writer replaces the oldest.
	writesKept = 1000
	// writeKept is how long the reads of a user wait for a write that was forwarded for the user. If the collection has
	// not received the write by then, responses carry a Warning with the collection's age.
	writeKept = time.Minute
)

// writes remembers the writes that were forwarded to the API server within the last minute, so that users read no state
// older than their own writes. It is safe for concurrent use.
type writes struct {
	mu sync.Mutex
	// last has each writer's latest writes. mu guards last.
	last map[writer]write
}

// writer identifies the forwarded writes of a user to one resource. The user "" stands for all users.
type writer struct {
	user     string
	resource schema.GroupResource
}

type write struct {
	// namespace is the namespace of the written objects; "" for several namespaces, and for cluster-scoped objects.
	namespace string
	// rv is the highest resourceVersion in the API server's responses; 0 if no response had one.
	rv uint64
	at time.Time
	// unknown is the time of the latest write without a known resourceVersion.
	unknown time.Time
}

// ended reports whether reads no longer wait for the write.
func (w write) ended(now time.Time) bool {
	return (w.rv == 0 || now.Sub(w.at) > writeKept) && !w.unknownAt(now)
}

// unknownAt reports whether the mirrored objects may still lack a write whose response had no resourceVersion.
func (w write) unknownAt(now time.Time) bool { return now.Sub(w.unknown) < freshFor }

// newWriter returns a writer. Events of both API groups count as one resource, and bindings as pods.
func newWriter(user string, r schema.GroupResource) writer {
	switch {
	case r == schema.GroupResource{Group: "events.k8s.io", Resource: "events"}:
		r.Group = ""
	case r == schema.GroupResource{Resource: "bindings"}: // a binding changes its pod
		r.Resource = "pods"
	}
	return writer{user, r}
}

// add remembers a write of a user to a resource. rv is the resourceVersion from the response; 0 if unknown.
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

// evictLocked makes space for a new writer: it drops writes for which reads no longer wait, or otherwise the oldest
// write, which the collection has most likely received.
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

// get returns the remembered writes of a user to a resource, if they concern the namespace; "" means all namespaces.
func (s *writes) get(by writer, namespace string, now time.Time) (w write, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok = s.last[by]; ok && w.ended(now) {
		delete(s.last, by)
		ok = false
	}
	return w, ok && (namespace == "" || w.namespace == "" || namespace == w.namespace)
}

func (s *writes) forget(by writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, by)
}

// receivesEvents reports whether the collection receives an event for every write in a namespace, and so reaches the
// write's resourceVersion at once. A collection with a selector may reach that resourceVersion only with a bookmark.
func receivesEvents(id entry.Identity, namespace string) bool {
	return id.LabelSelector == "" && id.FieldSelector == "" && (id.Namespace == "" || id.Namespace == namespace)
}

// readsLatest reports whether a read asks for the latest state: it has neither a resourceVersion nor a continue token.
func (q *request) readsLatest() bool {
	return q.r.URL.Query().Get("resourceVersion") == "" && q.options.token == nil
}

// behind reports whether the collection still lacks a write that was forwarded for the user. It waits for that write
// until freshFor after the write was made.
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
