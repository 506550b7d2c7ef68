package consumer

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
)

// Change is one change of the changelog.
type Change struct {
	// Type is entry.Upsert, or entry.Delete of the object with that UID.
	Type entry.OpType
	Key  string
	// Object is the stored object, or for Delete its last known state, which is nil if it cannot be decoded.
	Object          runtime.Object
	UID             string
	ResourceVersion string
	// Seq is the sequence number of the change in its collection.
	Seq uint64
	// Created is the sequence number of the change that first stored the object; 0 for Delete. An object that was lost by
	// damage counts as created when it is stored again.
	Created uint64
	// Time is the wall-clock time of the commit, rounded down by up to a minute; zero if it is not known. If a list found
	// the change, the server made it earlier. Only View.Changes and ChangedKeys set Time.
	Time time.Time
}

// Page is a run of changes in order.
type Page struct {
	Changes []Change
	// End is the offset from which to read the next page. It is 0 in a page that replays the objects to a new handler,
	// and in an empty result of Cursor.Next.
	End uint64
	// More says that further changes are in the file.
	More bool
	// Unreadable holds the keys of stored objects that this program cannot decode. Changes omits them until they
	// change.
	Unreadable []string
}

// Kept says which changes of a collection the store keeps for readers.
type Kept struct {
	// For is how long deletes are kept; 0 if no changes are kept.
	For time.Duration
	// Oldest is the lowest offset that View.Changes accepts. Last is the offset of the last change; it grows with each
	// commit that writes objects, whether changes are kept or not.
	Oldest, Last uint64
}

// ErrNotKept is returned if the store does not keep the collection's changes for readers; see
// store.Collection.RetainChanges.
var ErrNotKept = errors.New("the store does not keep changes for readers")

// SinceError says that the changelog does not have the changes since an offset.
type SinceError struct {
	// Since is the requested offset. Oldest and Last are the lowest and the highest valid offset.
	Since, Oldest, Last uint64
}

// Error implements error.
func (e *SinceError) Error() string {
	if e.Since > e.Last {
		return fmt.Sprintf(
			"the last change is %d, so %d is from another store, or from before this one was made anew", e.Last, e.Since)
	}
	return fmt.Sprintf("the changes since %d are not kept any more; the oldest offset is %d", e.Since, e.Oldest)
}

// Position is the position of a durable handler in the changelog of a collection.
type Position struct {
	// Seq is the offset: the handler has acknowledged every change up to this number, except the changes of the keys in
	// Failing. While it is Replaying, it has also not acknowledged the objects with keys after After.
	Seq uint64
	// Failing holds the keys that have changes up to Seq that are not acknowledged, with the number of the first such
	// change. It is shared: do not modify it.
	Failing map[string]uint64
	// Replaying says that the handler receives every object, in key order, and has acknowledged the objects up to After.
	// Seq does not move meanwhile.
	Replaying bool
	After     string
	// Notified says that the handler has been notified that it will receive every object again.
	Notified bool
	// Why is the reason why the handler last began anew.
	Why ResetReason
	// Types is the fingerprint of the Go types that the handler received the objects in; empty if it is not known.
	Types string
}

// ResetReason is the reason why a durable handler receives every object.
type ResetReason string

// The reasons why a durable handler receives every object.
const (
	// ResetNew says that no handler of that name was registered.
	ResetNew ResetReason = "new"
	// ResetBehind says that tombstones which the handler had not acknowledged were dropped, because there were too many
	// or they were too old.
	ResetBehind ResetReason = "behind"
	// ResetTypes says that the program's Go types have changed, and stored objects may have fields that the handler has
	// not seen.
	ResetTypes ResetReason = "types"
	// ResetDamage says that the file was damaged, and objects or changes of the collection may have been lost.
	ResetDamage ResetReason = "damage"
)

// Errors of cursors.
var (
	// ErrOpen says that a durable handler of that name is registered in this process.
	ErrOpen = errors.New("a durable handler of that name is registered")
	// ErrNone says that no durable handler of that name has ever been registered, or that it was forgotten.
	ErrNone = errors.New("no durable handler of that name")
	// ErrReset says that the handler was made to receive every object again after Cursor.Position was called: call
	// Position again.
	ErrReset = errors.New("the durable handler begins anew")
)

// Info is the state of a durable handler in the file.
type Info struct {
	Name string
	Position
	// Behind is an upper bound of the number of changes that the handler has not acknowledged. While it is Replaying,
	// the objects that it has yet to receive are not included.
	Behind uint64
}
