package serve

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

const (
	// writesKept is how many entries of forwarded writes are kept; the oldest one is dropped for another.
	writesKept = 1000
	// writeKept is for how long an entry is kept. An answer from a collection that has not reached the write by then has a
	// Warning of its age.
	writeKept = time.Minute
)

// writes remembers for a minute the writes that were forwarded to the API server, so that a user reads no state older
// than the user's own writes. It is safe for concurrent use.
type writes struct {
	mu   sync.Mutex
	last map[writer]write // guarded by mu
}

// writer is a user together with a resource that the user writes. An empty name is that of all users, who are not told
// apart.
type writer struct {
	user     string
	resource schema.GroupResource
}

// write is what is known of a writer's latest writes.
type write struct {
	namespace string    // of the objects; empty for several namespaces and for objects without one
	rv        uint64    // the highest resourceVersion that an answer had; 0 if none had one
	at        time.Time // of the write with rv
	unknown   time.Time // of the latest write after which the state of the API server is not known
}

// ended reports whether reads no longer depend on the entry.
func (w write) ended(now time.Time) bool {
	return (w.rv == 0 || now.Sub(w.at) > writeKept) && !w.unknownAt(now)
}

// unknownAt reports whether the collection may lack a write of which no resourceVersion is known.
func (w write) unknownAt(now time.Time) bool { return now.Sub(w.unknown) < freshFor }

// newWriter returns the writer for requests to a resource. A resource that others are stored as stands for them.
func newWriter(user string, r schema.GroupResource) writer {
	switch {
	case r == schema.GroupResource{Group: "events.k8s.io", Resource: "events"}:
		r.Group = ""
	case r == schema.GroupResource{Resource: "bindings"}: // each binds a pod
		r.Resource = "pods"
	}
	return writer{user, r}
}

// add notes a write. rv is 0 if it is not known.
func (s *writes) add(by writer, namespace string, rv uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, known := s.last[by]
	if known = known && !w.ended(now); !known {
		w = write{namespace: namespace}
		s.makePlaceLocked(now)
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

// makePlaceLocked drops entries until there is a place for another one. The collections have reached the oldest most
// likely.
func (s *writes) makePlaceLocked(now time.Time) {
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

// get returns the entry of a writer that concerns objects in a namespace; all if that is empty.
func (s *writes) get(by writer, namespace string, now time.Time) (w write, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok = s.last[by]; ok && w.ended(now) {
		delete(s.last, by)
		ok = false
	}
	return w, ok && (namespace == "" || w.namespace == "" || namespace == w.namespace)
}

// forget drops the entry of a writer.
func (s *writes) forget(by writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, by)
}

// tells reports whether a collection is sure to get an event, and with it the resourceVersion, of a write to objects in
// a namespace: a collection of some objects may first learn that resourceVersion from a bookmark.
func tells(id entry.Identity, namespace string) bool {
	return id.LabelSelector == "" && id.FieldSelector == "" && (id.Namespace == "" || id.Namespace == namespace)
}

// readsLatest reports whether the client asks for the latest state: without a resourceVersion, and not for a further
// page.
func (q *request) readsLatest() bool {
	return q.r.URL.Query().Get("resourceVersion") == "" && q.options.token == nil
}

// behind reports whether the collection lacks a forwarded write of the user. It waits for that, for freshFor at most
// after the write.
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
	if !tells(q.collection.Identity, w.namespace) {
		until = w.at
	}
	ctx, cancel := context.WithDeadline(q.ctx, until)
	defer cancel()
	if awaitRV(ctx, q.collection, q.reader, w.rv) == nil {
		return false, nil // the entry stays: another collection of the resource may lack the write
	}
	return true, context.Cause(q.ctx)
}
