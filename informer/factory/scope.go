package factory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
)

// scope is which objects of a resource the informers of a factory are on.
type scope struct {
	namespace           string
	label, field, shard string // selectors
}

// scope reads the selectors off TweakListOptions. They are the same for every request, since the identity cannot
// change.
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

// identity is that of the collection. Its representation is left to the example object.
func (s scope) identity(gvr schema.GroupVersionResource) entry.Identity {
	return entry.Identity{
		GroupVersionResource: gvr, Namespace: s.namespace,
		LabelSelector: s.label, FieldSelector: s.field, ShardSelector: s.shard,
	}
}

// listWatch makes requests of client with the selectors. The reflector's own field selector, which looks up one object,
// is added.
func (s scope) listWatch(client any, r calls) cache.ListerWatcher {
	lw := requests.ClientListWatch(r, entry.Identity{LabelSelector: s.label, FieldSelector: s.field,
		ShardSelector: s.shard})
	// The fakes do not know WatchList.
	return cache.ToListWatcherWithWatchListSemantics(lw, client)
}
