package history

import (
	"github.com/larder-dev/larder/entry"
)

// Finding is what one look-up says about the server's history.
type Finding string

const (
	// Agrees means that the server has the object in the state that we hold.
	Agrees Finding = "agrees"
	// Changed means that the server has changed or deleted the object since our state. An event must come.
	Changed Finding = "changed"
	// Contradicts means that the server has another object, or another state of it, at a resourceVersion that we have
	// passed. No stream leads from our state to the server's.
	Contradicts Finding = "contradicts"
)

// Check judges one look-up. held is the object by the stream, which has been delivered up to the resourceVersion at;
// got is the server's answer, if found.
func Check(held entry.ObjectRef, at string, got entry.ObjectRef, found bool) Finding {
	switch {
	case !found:
		return Changed
	case got.UID == held.UID && got.ResourceVersion == held.ResourceVersion:
		return Agrees
	case !entry.ComparableRV(got.ResourceVersion):
		return Agrees // not known
	case Below(at, got.ResourceVersion):
		return Changed
	}
	return Contradicts
}
