package store

import (
	"slices"

	"github.com/larder-dev/larder/entry"
)

// newestRefs is how many references Info.Newest keeps. A list gathers more, so
// that some are left after those that its events remove.
const (
	newestRefs         = 8
	newestRefsGathered = 64
)

// offerRef returns refs, of which there are at most limit, with ref in its
// place, and without an older reference to the same key. References whose
// resourceVersion cannot be compared are left out.
func offerRef(refs []entry.ObjectRef, ref entry.ObjectRef, limit int) []entry.ObjectRef {
	refs = dropRef(refs, ref.Key)
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

// dropRef returns refs without the one to key. It may change refs.
func dropRef(refs []entry.ObjectRef, key string) []entry.ObjectRef {
	return slices.DeleteFunc(refs, func(r entry.ObjectRef) bool { return r.Key == key })
}
