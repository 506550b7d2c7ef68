package subject

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/load"
)

// Witness is an event handler with minimal work: it counts calls, and signals the arrival of one awaited object. It
// ignores objects that the benchmark has not created.
type Witness struct {
	Kind      load.Kind
	OnUpdated func(obj any)

	// Seen is closed when the handler has received the awaited object with its revision or a later one.
	Seen chan struct{}
	// Added is closed when the awaited number of additions has arrived. AddedAt is the time of the last awaited addition.
	Added   chan struct{}
	AddedAt time.Time

	seen            sync.Once
	adds, updates   atomic.Int64
	want            int64
	namespace, name string
	revision        int
}

var _ cache.ResourceEventHandler = (*Witness)(nil)

// NewWitness returns a Witness for objects of a kind. Added waits for the given number (want) of additions, and Seen
// for the object with this key and revision.
func NewWitness(kind load.Kind, want int, key string, revision int) *Witness {
	w := &Witness{Kind: kind, Seen: make(chan struct{}), Added: make(chan struct{}), want: int64(want), revision: revision}
	w.namespace, w.name, _ = cache.SplitMetaNamespaceKey(key)
	return w
}

// Updates returns the number of updates so far.
func (w *Witness) Updates() int { return int(w.updates.Load()) }

// OnAdd implements cache.ResourceEventHandler.
func (w *Witness) OnAdd(obj any, _ bool) {
	m, ok := w.made(obj)
	if !ok {
		return
	}
	if w.adds.Add(1) == w.want {
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

// named is the part of metav1.Object that Witness uses.
type named interface {
	GetName() string
	GetNamespace() string
}

func (w *Witness) made(obj any) (named, bool) {
	m, ok := obj.(named)
	return m, ok && w.Kind.Made(m.GetName())
}

// notice closes Seen if obj is the awaited object. The caller must have counted the call before.
func (w *Witness) notice(m named, obj any) {
	if m.GetName() != w.name || m.GetNamespace() != w.namespace {
		return
	}
	if revision, _ := load.Revision(obj); revision >= w.revision {
		w.seen.Do(func() { close(w.Seen) })
	}
}
