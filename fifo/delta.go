package fifo

import "k8s.io/client-go/tools/cache"

// Types of deltas that client-go does not have. Its types keep their meaning: Added, Updated, Deleted, Bookmark,
// SyncAll, and Replaced, which here carries one page of a list.
const (
	// ReplaceStarted: a list begins.
	ReplaceStarted cache.DeltaType = "ReplaceStarted"
	// ReplacedByRef: one page of a list, by references to its objects.
	ReplacedByRef cache.DeltaType = "ReplacedByRef"
	// ReplaceFinished: the list ends. The pages and changes since ReplaceStarted are the server's whole state.
	ReplaceFinished cache.DeltaType = "ReplaceFinished"
	// ReplaceAborted: the pages since ReplaceStarted are void.
	ReplaceAborted cache.DeltaType = "ReplaceAborted"
	// LeftOut: an object that was refused. Only the refusal is stored.
	LeftOut cache.DeltaType = "LeftOut"
	// Drained: the deltas before this one contain the server's whole state at the time of the last connect.
	Drained cache.DeltaType = "Drained"
)

// Delta is one step of the stream.
type Delta struct {
	cache.Delta
	// ResourceVersion is the stream's resourceVersion after this delta; empty if the delta does not set it.
	ResourceVersion string
	// Count is the number of objects in the delta. Default 1.
	Count int
	// Bytes is about how much memory the delta holds. Default 0.
	Bytes int64
}

func (d *Delta) count() int {
	if d.Count <= 0 {
		return 1
	}
	return d.Count
}

// Batchable reports whether deltas of this type may share a batch with others.
func Batchable(t cache.DeltaType) bool {
	switch t {
	case cache.Added, cache.Updated, cache.Deleted, cache.Bookmark, LeftOut:
		return true
	}
	return false
}
