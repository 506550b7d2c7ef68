package snapshots

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
)

// overlaps decides which collection an object is exported from when several collections of its resource may contain it.
// A believed collection is complete and has whole objects (see believed): objects of its namespaces that only another
// collection has are deleted or outdated. Of several believed collections the collection with the latest contact wins.
// Objects outside their namespaces come from the first collection that is exported.
//
// Collections must be passed to takes in the order of exportedFirst, each before its records are read.
type overlaps struct {
	resource schema.GroupResource
	// whole holds the namespaces of the exported believed collections of the current resource; "" is all namespaces. A
	// believed collection is complete: objects missing from it do not exist.
	whole []string
	// unread holds keys of objects that believed (complete) collections of the current resource contain and that could not
	// be decoded.
	unread map[string]bool
	// exported holds keys of objects of the current resource that were exported from collections that are not believed,
	// that is, not complete.
	exported map[string]bool
	// last says that the current collection is the last of its resource.
	last bool
	// superseded holds the collections of which nothing is exported, because complete collections replace them.
	superseded map[entry.Identity]bool
}

// believed reports whether an object that is missing from collection c does not exist on the server, within the
// namespace of c.
func believed(c snapshot.Collection) bool {
	id := c.Identity
	return c.Complete && id.Representation != entry.Metadata && id.LabelSelector+id.FieldSelector+id.ShardSelector == ""
}

// exportedFirst orders collections by resource. Of one resource, complete collections (see believed) come first, and
// then collections with the latest contact with the server.
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

// takes begins the export of a collection, and reports whether its objects may be exported. Otherwise it adds the
// collection to superseded.
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

func (o *overlaps) takesKey(key string) bool {
	if o.unread[key] {
		return true
	}
	namespace, _ := input.SplitKey(key)
	return !o.exported[key] && !slices.Contains(o.whole, "") && (namespace == "" || !slices.Contains(o.whole, namespace))
}

// took handles an object of collection c: if decoded is true it was exported; otherwise it could not be decoded.
func (o *overlaps) took(c snapshot.Collection, key string, decoded bool) {
	switch {
	case o.last: // no later collection of this resource needs the key
	case !decoded && believed(c):
		o.unread[key] = true
	case decoded:
		delete(o.unread, key)
		if !believed(c) {
			o.exported[key] = true
		}
	}
}

func (o *overlaps) end(c snapshot.Collection) {
	if believed(c) {
		o.whole = append(o.whole, c.Identity.Namespace)
	}
}
