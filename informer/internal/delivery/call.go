package delivery

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

type Call struct {
	// Type is cache.Added, cache.Updated or cache.Deleted.
	Type     cache.DeltaType
	Key      string
	Old, New any
	// Before is the object stored before the change; nil if there was none, or if it cannot be read.
	Before runtime.Object
	// Firsts is the number of initial notifications in this call. The registration syncs only after the call.
	Firsts int32
	// Initial is OnAdd's isInInitialList.
	Initial bool
	// resync is true for an update by a resync: Old and New are the same object.
	resync bool
	// latest is true if this call is an update into which later updates of the same key could merge when it was queued.
	latest bool
}

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

// merge merges the update next, which follows n, into n. A resync and an update become the update.
func (n *Call) merge(next *Call) {
	if n.resync && next.resync {
		n.Old = next.Old
	}
	n.New = next.New
	n.resync = n.resync && next.resync
	n.Firsts += next.Firsts
}
