package history

import (
	"slices"

	"github.com/larder-dev/larder/entry"
)

// newestSize is how many references are kept, and MaxLookups how many of them are looked up at a connect. More are
// kept so that deletions leave some.
const (
	newestSize = 16
	MaxLookups = 5
)

// Newest is a small list of the newest objects of the stream, highest resourceVersion first: what
// the guard against a rewound server asks for. Objects that were deleted leave it.
type Newest struct {
	Refs []entry.ObjectRef
}

// Put notes a new state of an object.
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

// Find returns the reference to an object, if it is one of them.
func (n *Newest) Find(key string) (entry.ObjectRef, bool) {
	i := slices.IndexFunc(n.Refs, func(r entry.ObjectRef) bool { return r.Key == key })
	if i < 0 {
		return entry.ObjectRef{}, false
	}
	return n.Refs[i], true
}

// Remove forgets an object.
func (n *Newest) Remove(key string) {
	n.Refs = slices.DeleteFunc(n.Refs, func(r entry.ObjectRef) bool { return r.Key == key })
}
