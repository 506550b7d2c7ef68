package entry

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// OpType is the effect of an Op.
type OpType uint8

// The kinds of Op.
const (
	// Upsert writes the object under its key.
	Upsert OpType = iota
	// Delete removes the object with the key of Op.Object.
	Delete
	// LeaveOut records that the caller refused the object of Op.LeftOut. A stored object of that key stays.
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

// Op is one event of the watch stream.
type Op struct {
	Type OpType
	// Object is the object of the event. For Delete it is the last state, or a cache.DeletedFinalStateUnknown.
	Object any
	// Event is the type of the watch event (cache.Added, cache.Updated or cache.Deleted), if the watch began at the
	// collection's stored state. Change.Contradicts then reports whether the event contradicts that state. Default: no
	// check.
	Event cache.DeltaType
	// LeftOut describes the refused object of a LeaveOut, whose Object is not used.
	LeftOut LeftOut
}

// Batch is a sequence of events that Apply applies atomically: one transaction commits all of it.
type Batch struct {
	Ops []Op
	// ResourceVersion covers everything up to and including Ops: the resourceVersion of the last event or bookmark. Empty
	// leaves the stored one.
	ResourceVersion string
	// LastContact is when the server last confirmed that the state after the batch is current, or sent a newer state.
	// Zero leaves the stored time.
	LastContact time.Time
	// IfContradicted is stored as Info.MustRelist, together with Ops, if any Op contradicts the stored state
	// (Change.Contradicts). Default: MustRelist stays unchanged.
	IfContradicted string
	// Unpaced makes Apply wait only at the second bound of Collection.Backpressure, 64 MiB of uncommitted changes, and
	// not for the speed of the disk. It is for a caller that has waited in Collection.Backpressure already, and calls
	// Apply with a lock held.
	Unpaced bool
}

// Change is the effect of one Op, or of one difference found by a relist, on the store.
type Change struct {
	// Type is cache.Added, cache.Updated or cache.Deleted.
	Type cache.DeltaType
	Key  string
	// Old and New may be *Undecoded: see Decoded.

	// Old is the object that was stored; nil for Added. For Deleted it is the last stored state. It is nil if there was
	// none, or if this program cannot decode it (see ErrIncompatible).
	Old runtime.Object
	// OldRef identifies the stored state that Old was decoded from; zero if there was none. Handlers may have changed
	// the metadata of Old, which is shared; OldRef is read from the stored record.
	OldRef ObjectRef
	// New is the object that is stored now. For Deleted it is the event's object, or nil if a relist found the object
	// gone.
	New runtime.Object
	// Contradicts is true if Op.Event cannot follow the stored state in the history of one server: the key had an object
	// with another UID, or no object to modify or delete. The op was applied nevertheless. Contradicts is false if the
	// stored state proves nothing. That is so if the object was left out, or may have been (Info.LeftOutMore), if the
	// collection must be listed (Info.Complete, Info.MustRelist), and if the event is no newer than Info.ResourceVersion.
	// Only Apply sets it.
	Contradicts bool
}

// Skipped is an object that was left out of a batch because it cannot be keyed, encoded or indexed. A stored object of
// its key stays, and Info.LeftOut names the skipped object.
type Skipped struct {
	// Key is empty if the object has no key, and truncated if the key is too long to be stored.
	Key string
	Err error
}

// Result is the outcome of a batch, or of a page of a list.
type Result struct {
	Changes []Change
	Skipped []Skipped
	// Staged is true if a Replacement, a list in progress, holds back the changes of the page. The result of a later
	// call, such as its Commit, has these changes.
	Staged bool
	// More is true if Replacement.Commit has applied only a part of the changes of a list, and must be called again.
	More bool
}
