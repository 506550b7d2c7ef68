package factory

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// scope is which objects of a resource the informers of a factory are on.
type scope struct {
	namespace           string
	label, field, shard string // selectors
}

// scope reads the selectors off TweakListOptions. They are the same for every request, since the identity can not change.
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
func (s scope) identity(gvr schema.GroupVersionResource) store.Identity {
	return store.Identity{
		GroupVersionResource: gvr, Namespace: s.namespace,
		LabelSelector: s.label, FieldSelector: s.field, ShardSelector: s.shard,
	}
}

// listWatch makes requests of client with the selectors. The reflector's own field selector, which looks up one object, is added.
func (s scope) listWatch(client any, r requests) cache.ListerWatcher {
	shard := store.Identity{ShardSelector: s.shard}.Shards().String() // with all digits, which API servers insist on
	limit := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.ShardSelector = s.label, shard
		switch {
		case o.FieldSelector == "":
			o.FieldSelector = s.field
		case s.field != "":
			o.FieldSelector = s.field + "," + o.FieldSelector
		}
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.list(ctx, limit(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return r.watch(ctx, limit(o))
		},
	}
	// The fakes do not know WatchList.
	return cache.ToListWatcherWithWatchListSemantics(lw, client)
}
