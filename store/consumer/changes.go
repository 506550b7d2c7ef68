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
