package intake

import (
	"slices"

	"github.com/larder-dev/larder/entry"
)

// NewestRefs is the maximum length of Info.Newest. A list gathers
// newestRefsGathered, so that some are left after deletes by its events.
const (
	NewestRefs         = 8
	newestRefsGathered = 64
)

// OfferRef inserts ref into refs, newest first, and removes another reference
// to the same key. The result has at most limit references. ref is not
// inserted if its resourceVersion cannot be compared. It may change refs.
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

// DropRef returns refs without the reference to key. It may change refs.
func DropRef(refs []entry.ObjectRef, key string) []entry.ObjectRef {
	return slices.DeleteFunc(refs, func(r entry.ObjectRef) bool { return r.Key == key })
}
