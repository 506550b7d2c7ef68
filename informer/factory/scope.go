package factory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
)

// scope says which objects of a resource the informers of a factory list.
type scope struct {
	namespace           string
	label, field, shard string // selectors
}

// scope returns the namespace and the selectors that TweakListOptions sets. They hold for every request, since the
// identity cannot change.
func (o Options) scope() scope {
	var tweaked metav1.ListOptions
	if o.TweakListOptions != nil {
		o.TweakListOptions(&tweaked)
	}
	return scope{
		namespace: o.Namespace,
		label:     tweaked.LabelSelector,
		field:     tweaked.FieldSelector,
		shard:     tweaked.ShardSelector,
	}
}

// identity returns the identity of the collection, without the representation, which the example object tells.
func (s scope) identity(gvr schema.GroupVersionResource) entry.Identity {
	return entry.Identity{
		GroupVersionResource: gvr, Namespace: s.namespace,
		LabelSelector: s.label, FieldSelector: s.field, ShardSelector: s.shard,
	}
}

// listWatch returns a ListerWatcher whose requests have the selectors, and the field selector of the reflector's
// look-ups.
func (s scope) listWatch(client any, r calls) cache.ListerWatcher {
	lw := requests.ClientListWatch(r, entry.Identity{LabelSelector: s.label, FieldSelector: s.field,
		ShardSelector: s.shard})
	// The fakes do not know WatchList.
	return cache.ToListWatcherWithWatchListSemantics(lw, client)
}
