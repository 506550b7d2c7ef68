package fifo

import "k8s.io/client-go/tools/cache"

// Types of deltas that client-go does not have. client-go's types keep their meaning: Added, Updated, Deleted,
// Bookmark, SyncAll, and Replaced, which here carries one page of a list.
const (
	// ReplaceStarted begins a list.
	ReplaceStarted cache.DeltaType = "ReplaceStarted"
	// ReplacedByRef is one page of a list, as references to its objects.
	ReplacedByRef cache.DeltaType = "ReplacedByRef"
	// ReplaceFinished ends a list. The pages and changes since ReplaceStarted are the server's whole state.
	ReplaceFinished cache.DeltaType = "ReplaceFinished"
	// ReplaceAborted discards the pages since ReplaceStarted.
	ReplaceAborted cache.DeltaType = "ReplaceAborted"
	// LeftOut is a refused object. Only the refusal is stored.
	LeftOut cache.DeltaType = "LeftOut"
	// Drained means that the preceding deltas contain the server's whole state at the time of the last connect.
	Drained cache.DeltaType = "Drained"
)

// Delta is one step of the stream from the reflector.
type Delta struct {
	cache.Delta
	// ResourceVersion is the stream's resourceVersion after this delta. Empty if the delta does not change it.
	ResourceVersion string
	// Count is the number of objects in the delta. Default 1.
	Count int
	// Bytes is the approximate memory that the delta holds. Default 0.
	Bytes int64
}

func (d *Delta) count() int {
	if d.Count <= 0 {
		return 1
	}
	return d.Count
}

// Batchable reports whether deltas of type t may share a batch with other deltas.
func Batchable(t cache.DeltaType) bool {
	switch t {
	case cache.Added, cache.Updated, cache.Deleted, cache.Bookmark, LeftOut:
		return true
	}
	return false
}
