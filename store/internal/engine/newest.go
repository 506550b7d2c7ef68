package engine

import (
	"slices"

	"github.com/larder-dev/larder/entry"
)

// NewestRefs is the maximum length of Info.Newest, the references to the newest objects. A list collects up to
// newestRefsGathered, so that enough remain after delete events.
const (
	NewestRefs         = 8
	newestRefsGathered = 64
)

// OfferRef inserts ref into refs, newest first, and removes another reference to the same key. It drops references
// beyond limit. It does not insert ref if its resourceVersion cannot be compared. It may modify refs.
func OfferRef(refs []entry.ObjectRef, ref entry.ObjectRef, limit int) []entry.ObjectRef {
	refs = DropRef(refs, ref.Key)
	if !entry.ComparableRV(ref.ResourceVersion) {
		return refs
	}
	at, _ := slices.BinarySearchFunc(refs, ref, func(have, want entry.ObjectRef) int {
		if entry.NewerRV(have.ResourceVersion, want.ResourceVersion) {
			return -1
		}
		return 1
	})
	if at >= limit {
		return refs
	}
	refs = slices.Insert(refs, at, ref)
	return refs[:min(len(refs), limit)]
}

// DropRef returns refs without the reference to key. It may modify refs.
func DropRef(refs []entry.ObjectRef, key string) []entry.ObjectRef {
	return slices.DeleteFunc(refs, func(r entry.ObjectRef) bool { return r.Key == key })
}
