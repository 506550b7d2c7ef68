package subject

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/load"
)

// Witness is a handler that does as little as possible: it counts, and notices one object. What the benchmark has not made is no concern of
// its.
type Witness struct {
	// Kind tells what the benchmark has made.
	Kind load.Kind
	// Want is how many additions Added waits for; 0 if it need not.
	Want int64
	// Key and Revision are what Seen waits for.
	Key      string
	Revision int
	// OnUpdated is called for every update, if set.
	OnUpdated func(obj any)

	// Seen is closed when the object has been told with that revision or a later one.
	Seen chan struct{}
	seen sync.Once
	// Added is closed when Want additions have been told; AddedAt is when that was.
	Added   chan struct{}
	AddedAt time.Time

	adds, updates atomic.Int64
	namespace     string
	name          string
}

var _ cache.ResourceEventHandler = (*Witness)(nil)

// NewWitness waits for want additions of a kind, and for an object of that key and revision.
func NewWitness(kind load.Kind, want int64, key string, revision int) *Witness {
	w := &Witness{Kind: kind, Want: want, Key: key, Revision: revision, Seen: make(chan struct{}), Added: make(chan struct{})}
	w.namespace, w.name, _ = cache.SplitMetaNamespaceKey(key)
	return w
}

// Updates is how many updates have been told.
func (w *Witness) Updates() int64 { return w.updates.Load() }

// OnAdd implements cache.ResourceEventHandler.
func (w *Witness) OnAdd(obj any, _ bool) {
	m, ok := w.made(obj)
	if !ok {
		return
	}
	if w.adds.Add(1) == w.Want {
		w.AddedAt = time.Now()
		close(w.Added)
	}
	w.notice(m, obj)
}

// OnUpdate implements cache.ResourceEventHandler.
func (w *Witness) OnUpdate(_, obj any) {
	m, ok := w.made(obj)
	if !ok {
		return
	}
	w.updates.Add(1)
	if w.OnUpdated != nil {
		w.OnUpdated(obj)
	}
	w.notice(m, obj)
}

// OnDelete implements cache.ResourceEventHandler.
func (w *Witness) OnDelete(any) {}

// named is what every object is.
type named interface {
	GetName() string
	GetNamespace() string
}

// made returns what an object is called, and whether the benchmark has made it.
func (w *Witness) made(obj any) (named, bool) {
	m, ok := obj.(named)
	return m, ok && w.Kind.Made(m.GetName())
}

func (w *Witness) notice(m named, obj any) {
	if w.name == "" || m.GetName() != w.name || m.GetNamespace() != w.namespace {
		return
	}
	if revision, _ := load.Revision(obj); revision >= w.Revision {
		w.seen.Do(func() { close(w.Seen) })
	}
}
