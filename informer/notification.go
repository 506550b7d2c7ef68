package informer

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// notification is one call of a handler.
type notification struct {
	// typ is cache.Added, cache.Updated or cache.Deleted.
	typ      cache.DeltaType
	key      string
	old, new any
	// before is what was stored before it; nil if there was nothing, or if that can not be read.
	before runtime.Object
	// firsts is how many notifications this one stands for that belong to the first sync: the registration has not
	// synced before this call has returned.
	firsts int32
	// initial: OnAdd's isInInitialList.
	initial bool
	// resync: nothing has happened; old and new are one object.
	resync bool
	// latest: pending.latest knew of it when it was queued.
	latest bool
}

// call makes the call.
func (n notification) call(h cache.ResourceEventHandler) {
	switch n.typ {
	case cache.Added:
		h.OnAdd(n.new, n.initial)
	case cache.Updated:
		h.OnUpdate(n.old, n.new)
	case cache.Deleted:
		h.OnDelete(n.old)
	}
}

// merge makes one update of n and the update that follows it. Two resyncs are a resync; a resync and an update are that update.
func (n *notification) merge(next *notification) {
	if n.resync && next.resync {
		n.old = next.old
	}
	n.new = next.new
	n.resync = n.resync && next.resync
	n.firsts += next.firsts
}
