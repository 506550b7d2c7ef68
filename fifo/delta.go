package fifo

import "k8s.io/client-go/tools/cache"

// Types of deltas that client-go does not have. Its own are used with its meaning: Added,
// Updated, Deleted, Bookmark, SyncAll, and Replaced, which here carries one page of a list.
const (
	// ReplaceStarted: a list begins.
	ReplaceStarted cache.DeltaType = "ReplaceStarted"
	// ReplacedByRef: one page of a list, by the identities of its objects.
	ReplacedByRef cache.DeltaType = "ReplacedByRef"
	// ReplaceFinished: the pages and changes since ReplaceStarted are the whole state.
	ReplaceFinished cache.DeltaType = "ReplaceFinished"
	// ReplaceAborted: the pages since ReplaceStarted are void.
	ReplaceAborted cache.DeltaType = "ReplaceAborted"
	// LeftOut: an object that was refused, so that there is nothing to store but that.
	LeftOut cache.DeltaType = "LeftOut"
	// Drained: everything that the server had when it was contacted precedes this delta.
	Drained cache.DeltaType = "Drained"
)

// Delta is one step of the stream.
type Delta struct {
	cache.Delta
	// ResourceVersion that the stream stands at after this delta; empty if it has none.
	ResourceVersion string
	// Count is the number of objects in it. Default 1.
	Count int
	// Bytes is the memory that it holds, roughly. Default 0.
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
