package history

import (
	"github.com/larder-dev/larder/entry"
)

// Finding is the result of comparing one stored object with the server's state.
type Finding string

const (
	// Agrees means that the server has the object in the stored state, or in one that cannot be compared.
	Agrees Finding = "agrees"
	// Changed means that the server has changed or deleted the object since the stored state. The watch must still
	// deliver an event for that change.
	Changed Finding = "changed"
	// Contradicts means that the server has another object, or another state of it, at a resourceVersion that was
	// already delivered. No events lead from the stored state to the server's.
	Contradicts Finding = "contradicts"
)

// Check compares one stored object (held) with the server's (got). at is the newest delivered resourceVersion. found is
// false if the server does not have the object.
func Check(held entry.ObjectRef, at string, got entry.ObjectRef, found bool) Finding {
	switch {
	case !found:
		return Changed
	case got.UID == held.UID && got.ResourceVersion == held.ResourceVersion:
		return Agrees
	case !entry.ComparableRV(got.ResourceVersion):
		return Agrees // resourceVersions that cannot be compared prove nothing
	case Below(at, got.ResourceVersion):
		return Changed
	}
	return Contradicts
}
