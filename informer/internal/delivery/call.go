package delivery

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Call is one call of a handler.
type Call struct {
	// Type is cache.Added, cache.Updated or cache.Deleted.
	Type     cache.DeltaType
	Key      string
	Old, New any
	// Before is what was stored before it; nil if there was nothing, or if that cannot be read.
	Before runtime.Object
	// Firsts is how many notifications this one stands for that belong to the first sync: the registration has not
	// synced before this call has returned.
	Firsts int32
	// Initial: OnAdd's isInInitialList.
	Initial bool
	// resync: nothing has happened; old and new are one object.
	resync bool
	// latest: pending.latest knew of it when it was queued.
	latest bool
}

// call makes the call.
func (n Call) call(h cache.ResourceEventHandler) {
	switch n.Type {
	case cache.Added:
		h.OnAdd(n.New, n.Initial)
	case cache.Updated:
		h.OnUpdate(n.Old, n.New)
	case cache.Deleted:
		h.OnDelete(n.Old)
	}
}

// merge makes one update of n and the update that follows it. Two resyncs are a resync; a resync and an update are
// that update.
func (n *Call) merge(next *Call) {
	if n.resync && next.resync {
		n.Old = next.Old
	}
	n.New = next.New
	n.resync = n.resync && next.resync
	n.Firsts += next.Firsts
}
