package subject

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/load"
)

// Witness is a handler that does as little as possible: it counts, and notices one object.
type Witness struct {
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

// NewWitness waits for want additions, and for an object of that key and revision.
func NewWitness(want int64, key string, revision int) *Witness {
	w := &Witness{Want: want, Key: key, Revision: revision, Seen: make(chan struct{}), Added: make(chan struct{})}
	w.namespace, w.name, _ = cache.SplitMetaNamespaceKey(key)
	return w
}

// Updates is how many updates have been told.
func (w *Witness) Updates() int64 { return w.updates.Load() }

// OnAdd implements cache.ResourceEventHandler.
func (w *Witness) OnAdd(obj any, _ bool) {
	if w.adds.Add(1) == w.Want {
		w.AddedAt = time.Now()
		close(w.Added)
	}
	w.notice(obj)
}

// OnUpdate implements cache.ResourceEventHandler.
func (w *Witness) OnUpdate(_, obj any) {
	w.updates.Add(1)
	if w.OnUpdated != nil {
		w.OnUpdated(obj)
	}
	w.notice(obj)
}

// OnDelete implements cache.ResourceEventHandler.
func (w *Witness) OnDelete(any) {}

func (w *Witness) notice(obj any) {
	m, ok := obj.(interface {
		GetName() string
		GetNamespace() string
	})
	if !ok || w.name == "" || m.GetName() != w.name || m.GetNamespace() != w.namespace {
		return
	}
	if revision, _ := load.Revision(obj); revision >= w.Revision {
		w.seen.Do(func() { close(w.Seen) })
	}
}
