package history

import (
	"slices"

	"github.com/larder-dev/larder/entry"
)

// newestSize is the maximum length of Newest. MaxLookups is how many of its objects are compared with the server's at a
// connect. Newest holds more objects than that, so that enough remain after deletions.
const (
	newestSize = 16
	MaxLookups = 5
)

// Newest is a short list of the delivered objects with the highest resourceVersions, highest first. At a connect the
// reflector compares them with the server's, to detect a server that was restored from a backup.
type Newest struct {
	Refs []entry.ObjectRef
}

// Put adds a new state of an object in place of an older state. It adds nothing if ref has no UID, if its
// resourceVersion cannot be compared, or if the list is full of newer objects.
func (n *Newest) Put(ref entry.ObjectRef) {
	n.Remove(ref.Key)
	if ref.UID == "" || !entry.ComparableRV(ref.ResourceVersion) {
		return
	}
	if len(n.Refs) == newestSize && Below(ref.ResourceVersion, n.Refs[newestSize-1].ResourceVersion) {
		return
	}
	i, _ := slices.BinarySearchFunc(n.Refs, ref, func(a, b entry.ObjectRef) int {
		if Below(b.ResourceVersion, a.ResourceVersion) {
			return -1
		}
		return 1
	})
	n.Refs = slices.Insert(n.Refs, i, ref)
	if len(n.Refs) > newestSize {
		n.Refs = n.Refs[:newestSize]
	}
}

func (n *Newest) Find(key string) (entry.ObjectRef, bool) {
	i := slices.IndexFunc(n.Refs, func(r entry.ObjectRef) bool { return r.Key == key })
	if i < 0 {
		return entry.ObjectRef{}, false
	}
	return n.Refs[i], true
}

func (n *Newest) Remove(key string) {
	n.Refs = slices.DeleteFunc(n.Refs, func(r entry.ObjectRef) bool { return r.Key == key })
}
