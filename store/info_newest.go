package store

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// newestRefs is how many references Info.Newest keeps. A list gathers more, so
// that some are left after those that its events remove.
const (
	newestRefs         = 8
	newestRefsGathered = 64
)

// offerRef returns refs, of which there are at most limit, with ref in its
// place, and without an older reference to the same key. References whose
// resourceVersion can not be compared are left out.
func offerRef(refs []ObjectRef, ref ObjectRef, limit int) []ObjectRef {
	refs = dropRef(refs, ref.Key)
	if !validRV(ref.ResourceVersion) {
		return refs
	}
	at, _ := slices.BinarySearchFunc(refs, ref, func(have, want ObjectRef) int {
		if newerRV(have.ResourceVersion, want.ResourceVersion) {
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
func dropRef(refs []ObjectRef, key string) []ObjectRef {
	return slices.DeleteFunc(refs, func(r ObjectRef) bool { return r.Key == key })
}

// validRV reports whether rv can be compared with others.
func validRV(rv string) bool {
	_, err := resourceversion.CompareResourceVersion(rv, rv)
	return err == nil
}

// newerRV reports whether a is newer than b. It is false if they can not be compared.
func newerRV(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}
