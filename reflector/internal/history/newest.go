package history

import (
	"slices"

	"github.com/larder-dev/larder/entry"
)

// newestSize is the maximum length of Newest. MaxLookups is how many of its objects are looked up at a connect. Newest
// holds more than MaxLookups so that enough remain after deletions.
const (
	newestSize = 16
	MaxLookups = 5
)

// Newest is a short list of the newest objects of the stream, highest resourceVersion first. The reflector looks them
// up at a connect to find out whether the server was rewound. Deleted objects are removed from it.
type Newest struct {
	Refs []entry.ObjectRef
}

// Put adds a new state of an object and removes its older one. It adds nothing if ref has no UID, if its
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

// Find returns the reference to the object with that key, and whether n contains it.
func (n *Newest) Find(key string) (entry.ObjectRef, bool) {
	i := slices.IndexFunc(n.Refs, func(r entry.ObjectRef) bool { return r.Key == key })
	if i < 0 {
		return entry.ObjectRef{}, false
	}
	return n.Refs[i], true
}

// Remove removes the object with that key.
func (n *Newest) Remove(key string) {
	n.Refs = slices.DeleteFunc(n.Refs, func(r entry.ObjectRef) bool { return r.Key == key })
}
