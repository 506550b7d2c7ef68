package entry

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// OpType is the effect of an Op.
type OpType uint8

// Effects of an Op.
const (
	// Upsert writes the object under its key.
	Upsert OpType = iota
	// Delete removes the object with the key of Op.Object.
	Delete
	// LeaveOut stores only that the caller refused the object Op.LeftOut. A stored object of that key stays.
	LeaveOut
)

func (t OpType) String() string {
	switch t {
	case Delete:
		return "Delete"
	case LeaveOut:
		return "LeaveOut"
	}
	return "Upsert"
}

// Op is the effect of one watch event on a collection.
type Op struct {
	Type OpType
	// Object is the object of the watch event. For Delete it is the last state, or a cache.DeletedFinalStateUnknown.
	Object any
	// Event is the type of the watch event (cache.Added, cache.Updated or cache.Deleted), if the watch began at the
	// collection's stored state. Change.Contradicts then reports whether the event contradicts that state. Default: no
	// check.
	Event cache.DeltaType
	// LeftOut describes the refused object of a LeaveOut, which has no Object.
	LeftOut LeftOut
}

// Batch is a sequence of Ops that Apply commits in one transaction.
type Batch struct {
	Ops []Op
	// ResourceVersion is the resourceVersion of the last watch event or bookmark. It covers everything up to and including
	// Ops. If it is empty, the stored resourceVersion stays.
	ResourceVersion string
	// LastContact is when the server last confirmed that the state after the batch is current, or sent a newer state. If
	// it is zero, the stored time stays.
	LastContact time.Time
	// IfContradicted becomes Info.MustRelist, in the transaction of Ops, if any Op contradicts the stored state
	// (Change.Contradicts). Default: MustRelist stays unchanged.
	IfContradicted string
	// Unpaced makes Apply wait only at the second bound of Collection.Backpressure, 64 MiB of uncommitted changes, and not
	// for the speed of the disk. It is for a caller that has already waited in Collection.Backpressure, and calls Apply
	// with a lock held.
	Unpaced bool
}

// Change is the effect of one Op, or of one difference found by a relist, on the store.
type Change struct {
	// Type is cache.Added, cache.Updated or cache.Deleted.
	Type cache.DeltaType
	Key  string

	// Old is the previously stored object, perhaps an *Undecoded (see Decoded). For Deleted it is the last stored state.
	// It is nil if no object was stored, or if this program cannot decode the object (see ErrIncompatible).
	Old runtime.Object
	// OldRef identifies the stored state of Old; zero if no object was stored. OldRef is from the stored record, because
	// handlers may have changed the metadata of Old, which is shared.
	OldRef ObjectRef
	// New is the newly stored object, perhaps an *Undecoded. For Deleted it is the event's object, or nil in a relist.
	New runtime.Object
	// Contradicts is true if Op.Event cannot follow the stored state in the history of one server: the key had an object
	// with another UID, or no object to modify or delete. The op was applied nevertheless. Only Apply sets Contradicts.
	//
	// Contradicts is false if the stored state proves nothing: if the object was left out, or may have been
	// (Info.LeftOutMore), if the collection must be listed (Info.Complete, Info.MustRelist), and if the event is no newer
	// than Info.ResourceVersion.
	Contradicts bool
}

// Skipped is an object that was left out of a batch because it has no valid key, or cannot be encoded or indexed. A
// stored object of the same key stays, and Info.LeftOut names the skipped object.
type Skipped struct {
	// Key is empty for an object without a key, and truncated for a key that is too long to be stored.
	Key string
	Err error
}

// Result is the outcome of a batch, or of a page of a list.
type Result struct {
	Changes []Change
	Skipped []Skipped
	// Staged is true if a Replacement, a list in progress, holds back the changes of the page. The result of a later call,
	// such as Replacement.Commit, has these changes.
	Staged bool
	// More is true after Replacement.Commit applied only a part of a list. The caller must call Commit once more.
	More bool
}
