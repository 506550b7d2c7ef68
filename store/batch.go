package store

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// OpType is what an Op does.
type OpType uint8

// The kinds of Op.
const (
	// Upsert writes the object under its key.
	Upsert OpType = iota
	// Delete removes the object with the key of Op.Object.
	Delete
	// LeaveOut records that the caller refused the object of Op.LeftOut. What is stored under its key stays.
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
	// Object is the object as the event carried it (for Delete: its last
	// state, or a cache.DeletedFinalStateUnknown).
	Object any
	// Event is the type of the watch event, cache.Added, cache.Updated or cache.Deleted, if it was sent by a watch from
	// what the collection holds: then Change.Contradicts says whether it can follow that. Default: not asked.
	Event cache.DeltaType
	// LeftOut is the object of a LeaveOut, which has no Object.
	LeftOut entry.LeftOut
}

// Batch is a run of the event stream, in order, that Apply commits in one
// transaction.
type Batch struct {
	Ops []Op
	// ResourceVersion covers everything up to and including Ops: that of the
	// last event or bookmark. Empty leaves the stored one.
	ResourceVersion string
	// LastContact is when the server was last heard. Zero leaves the stored time.
	LastContact time.Time
	// IfContradicted is the reason to store, as Info.MustRelist and with Ops, if one of them contradicts what was stored
	// (Change.Contradicts). Default: none.
	IfContradicted string
	// Unpaced has Apply wait at the second bound of Collection.WaitRoom only. It is for those who call WaitRoom first, and
	// Apply with a lock that others need.
	Unpaced bool
}

// Change is what one Op, or one difference found by a relist, did to the store.
type Change struct {
	// Type is cache.Added, cache.Updated or cache.Deleted.
	Type cache.DeltaType
	Key  string
	// Old is the object that was stored; nil for Added. For Deleted it is the
	// last stored state, or nil if there was none, or none that this program can
	// decode (see ErrIncompatible).
	Old runtime.Object
	// New is the object now stored. For Deleted it is nil when a relist found
	// the object gone, and else the event's object.
	New runtime.Object
	// Contradicts: no server whose history leads to what was stored sends Op.Event after it: the key had an object with
	// another UID, or none that could be modified or deleted. It was applied all the same. It is not set where that
	// shows nothing: the object was left out, or may have been (Info.LeftOutMore), the collection has to be listed
	// (Info.Complete, Info.MustRelist), or the event is no newer than Info.ResourceVersion. Only Apply sets it.
	Contradicts bool
}

// Skipped is an object that was left out of a batch because it cannot be
// keyed, encoded or indexed. What was stored under its key stays, and Info.LeftOut names it.
type Skipped struct {
	// Key may be empty if there is none, and is cut short if it is too long to be stored.
	Key string
	Err error
}

// Result is what a batch or a page did.
type Result struct {
	Changes []Change
	Skipped []Skipped
	// Staged: nothing has been committed. What a Replacement took in waits for a later call, whose result has its changes.
	Staged bool
	// More: Replacement.Commit has more to apply, and is to be called again.
	More bool
}
