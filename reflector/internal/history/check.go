package history

import (
	"github.com/larder-dev/larder/entry"
)

// Finding is what one look-up says about the server's history.
type Finding string

const (
	// Agrees says that the server has the object as we hold it.
	Agrees Finding = "agrees"
	// Changed says that the server has changed it since our state. An event must come.
	Changed Finding = "changed"
	// Contradicts says that the server had another object, or another state of it, at a resourceVersion that we
	// have passed. No stream leads from our state to this one.
	Contradicts Finding = "contradicts"
)

// Check judges one look-up: held is what the stream said, at the resourceVersion where it stands.
func Check(held entry.ObjectRef, at string, got entry.ObjectRef, found bool) Finding {
	switch {
	case !found:
		return Changed
	case got.UID == held.UID && got.ResourceVersion == held.ResourceVersion:
		return Agrees
	case !entry.ComparableRV(got.ResourceVersion):
		return Agrees // it says nothing
	case Below(at, got.ResourceVersion):
		return Changed
	}
	return Contradicts
}
