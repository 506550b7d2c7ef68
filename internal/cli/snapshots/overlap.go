package snapshots

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
)

// overlaps decides where an object comes from that several collections of its resource may have. A collection that has
// whole objects, and all of them, of its namespaces is believed: what another one has there besides is gone, or older.
// Of several such the one that was heard of last is. Elsewhere an object comes from the collection that is exported
// first.
//
// Collections come in the order of exportedFirst, and each is asked for with takes before its records are.
type overlaps struct {
	resource schema.GroupResource
	// whole are the namespaces of the believed collections of resource that have been exported; "" is all.
	whole []string
	// unread are the keys of resource that the believed ones have, and that could not be decoded.
	unread map[string]bool
	// exported are the keys of resource that came from other collections.
	exported map[string]bool
	// last says that no other collection of resource follows.
	last bool
	// superseded are the collections that nothing is taken of.
	superseded map[entry.Identity]bool
}

// believed says whether what c does not have is not there.
func believed(c snapshot.Collection) bool {
	id := c.Identity
	return c.Complete && id.Representation != entry.Metadata && id.LabelSelector+id.FieldSelector+id.ShardSelector == ""
}

// exportedFirst puts those that are believed first, and of them and of others what was heard of last.
func exportedFirst(a, b snapshot.Collection) int {
	rank := func(c snapshot.Collection) int {
		if believed(c) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(input.NameOf(a), input.NameOf(b)), cmp.Compare(rank(a), rank(b)),
		b.LastContact.Compare(a.LastContact),
		cmp.Compare(a.Identity.String(), b.Identity.String()))
}

// takes reports whether anything is to be taken of c.
func (o *overlaps) takes(c snapshot.Collection) bool {
	if r := c.Identity.GroupResource(); o.exported == nil || r != o.resource {
		o.resource, o.whole, o.unread, o.exported = r, nil, map[string]bool{}, map[string]bool{}
	}
	if len(o.unread) > 0 || !slices.Contains(o.whole, "") &&
		(c.Identity.Namespace == "" || !slices.Contains(o.whole, c.Identity.Namespace)) {
		return true
	}
	if o.superseded == nil {
		o.superseded = map[entry.Identity]bool{}
	}
	o.superseded[c.Identity] = true
	return false
}

// takesKey reports whether an object of a collection that is taken is.
func (o *overlaps) takesKey(key string) bool {
	if o.unread[key] {
		return true
	}
	namespace, _ := input.SplitKey(key)
	return !o.exported[key] && !slices.Contains(o.whole, "") && (namespace == "" || !slices.Contains(o.whole, namespace))
}

// took notes an object that is exported, or could not be decoded.
func (o *overlaps) took(c snapshot.Collection, key string, decoded bool) {
	switch {
	case o.last: // nobody asks again
	case !decoded && believed(c):
		o.unread[key] = true
	case decoded:
		delete(o.unread, key)
		if !believed(c) {
			o.exported[key] = true
		}
	}
}

// end notes that c has been exported.
func (o *overlaps) end(c snapshot.Collection) {
	if believed(c) {
		o.whole = append(o.whole, c.Identity.Namespace)
	}
}
