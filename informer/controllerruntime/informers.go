package controllerruntime

import (
	"context"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/mapper"
)

// madeCache is a cache of NewCache, with Larder's RESTMapper. Its GetInformer also returns the informers of single
// namespaces, which controller-runtime hides even if there is only one.
type madeCache struct {
	cache.Cache
	adapter *adapter
	scheme  *runtime.Scheme
	mapper  *mapper.Mapper // mapper is nil if the RESTMapper is not Larder's
}

func (c madeCache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if c.mapper != nil {
		wg.Go(func() { c.mapper.Run(ctx) })
	}
	return c.Cache.Start(ctx)
}

// NeedLeaderElection returns the answer of the wrapped cache. A manager runs the cache as a Runnable, and without this
// method would start it only after the leader election.
func (c madeCache) NeedLeaderElection() bool {
	says, ok := c.Cache.(manager.LeaderElectionRunnable)
	return !ok || says.NeedLeaderElection()
}

// GetInformer returns the *informer.Informer for objects like obj if they are in one collection.
func (c madeCache) GetInformer(
	ctx context.Context, obj client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	inf, err := c.Cache.GetInformer(ctx, obj, opts...)
	if err != nil {
		return nil, err
	}
	return c.adapter.reveal(inf, obj), nil
}

func (c madeCache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	inf, err := c.Cache.GetInformerForKind(ctx, gvk, opts...)
	if err != nil {
		return nil, err
	}
	obj, err := c.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return c.adapter.reveal(inf, obj), nil
}

// severalInformers is controller-runtime's informer over several namespaces, with the informers of the namespaces.
type severalInformers struct {
	cache.Informer
	all []toolscache.SharedIndexInformer
}

// reveal returns the informer, or the severalInformers, that controller-runtime's inf for objects like obj hides.
func (a *adapter) reveal(inf cache.Informer, obj runtime.Object) cache.Informer {
	if _, one := inf.(toolscache.SharedIndexInformer); one {
		return inf
	}
	a.mu.Lock()
	all := slices.Clone(a.informers[kindOf(obj)])
	a.mu.Unlock()
	all = slices.DeleteFunc(all, func(i toolscache.SharedIndexInformer) bool { return i.IsStopped() })
	if len(all) == 1 {
		return all[0]
	}
	return severalInformers{inf, all}
}

// note adds inf, an informer for objects like obj, to informers. It replaces an older informer on the same collection.
func (a *adapter) note(obj runtime.Object, inf toolscache.SharedIndexInformer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := kindOf(obj)
	a.informers[kind] = append(slices.DeleteFunc(a.informers[kind], func(old toolscache.SharedIndexInformer) bool {
		was, wasErr := informer.Of(old)
		is, isErr := informer.Of(inf)
		return wasErr != nil || isErr == nil && was.Identity() == is.Identity()
	}), inf)
}

// kind identifies the informers of a cache: a cache has one for each kind and namespace.
type kind struct {
	goType reflect.Type
	gvk    schema.GroupVersionKind // gvk is empty if goType determines the kind
}

func kindOf(obj runtime.Object) kind {
	k := kind{goType: reflect.TypeOf(obj)}
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		k.gvk = obj.GetObjectKind().GroupVersionKind()
	}
	return k
}
