package reflector

import (
	"slices"

	"github.com/larder-dev/larder/entry"
)

// newestSize is how many references are kept, and maxLookups how many of them are looked up at a connect. More are
// kept so that deletions leave some.
const (
	newestSize = 16
	maxLookups = 5
)

// newest is a small list of the newest objects of the stream, highest resourceVersion first: what
// the guard against a rewound server asks for. Objects that were deleted leave it.
type newest struct {
	refs []entry.ObjectRef
}

// put notes a new state of an object.
func (n *newest) put(ref entry.ObjectRef) {
	n.remove(ref.Key)
	if ref.UID == "" || !entry.ComparableRV(ref.ResourceVersion) {
		return
	}
	if len(n.refs) == newestSize && below(ref.ResourceVersion, n.refs[newestSize-1].ResourceVersion) {
		return
	}
	i, _ := slices.BinarySearchFunc(n.refs, ref, func(a, b entry.ObjectRef) int {
		if below(b.ResourceVersion, a.ResourceVersion) {
			return -1
		}
		return 1
	})
	n.refs = slices.Insert(n.refs, i, ref)
	if len(n.refs) > newestSize {
		n.refs = n.refs[:newestSize]
	}
}

// find returns the reference to an object, if it is one of them.
func (n *newest) find(key string) (entry.ObjectRef, bool) {
	i := slices.IndexFunc(n.refs, func(r entry.ObjectRef) bool { return r.Key == key })
	if i < 0 {
		return entry.ObjectRef{}, false
	}
	return n.refs[i], true
}

// remove forgets an object.
func (n *newest) remove(key string) {
	n.refs = slices.DeleteFunc(n.refs, func(r entry.ObjectRef) bool { return r.Key == key })
}
