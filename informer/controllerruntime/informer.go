package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// newInformer implements cache.Options.NewInformer. It cannot return an error: if it fails, it returns an
// informer.Refused, whose methods return the error.
func (a *adapter) newInformer(
	lw cache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	var inf cache.SharedIndexInformer
	made, err := a.make(lw, obj, resync, indexers)
	if inf = made; err != nil {
		inf = informer.Refused(obj, fmt.Errorf("no informer for %s: %w", describe(obj), err))
	}
	a.note(obj, inf)
	return inf
}

func (a *adapter) make(
	lw cache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers cache.Indexers,
) (*informer.Informer, error) {
	id, accept, err := identify(lw, obj, a.base)
	if err != nil {
		return nil, err
	}
	o := a.template
	o.Identity = id
	o.ResyncPeriod, o.Indexers = resync, indexers
	if o.ClusterID == nil {
		o.ClusterID = a.clusterID
	}
	if o.OpenAPIHash == nil {
		o.OpenAPIHash = a.schemas.Hash(id.GroupVersion())
	}
	if err := a.closeUnrun(id); err != nil {
		return nil, err
	}
	inf, err := informer.New(a.reading(lw, id, accept), exampleOf(obj), o)
	if errors.Is(err, store.ErrCollectionOpen) {
		return nil, fmt.Errorf("%w; give each manager and cluster a store.Store of its own", err)
	}
	if err != nil {
		return nil, err
	}
	if inf.Status().Persistent {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.made[id.ID()] = inf
	}
	return inf, nil
}

// reading returns controller-runtime's ListerWatcher together with its requests, so that the informer reads the answers
// itself. If the watch request cannot be captured, it returns the ListerWatcher alone. accept is the Accept header of
// lists of whole objects.
func (a *adapter) reading(lw cache.ListerWatcher, id entry.Identity, accept string) cache.ListerWatcher {
	narrowed := narrowing(cache.ToListerWatcherWithContext(lw))
	bookmarks, known := watchesBookmarks(lw)
	if !known {
		return narrowed
	}
	return requests.WithRequest(narrowed, func(o metav1.ListOptions) *rest.Request {
		o.AllowWatchBookmarks = o.AllowWatchBookmarks && bookmarks
		r := requests.Request(a.client, id, o)
		if id.Representation != entry.Metadata {
			r.SetHeader("Accept", accept)
		}
		return r
	})
}

// closeUnrun closes the previous informer of the collection, if it was never run. A cache has one informer for an
// identity at a time, so the previous one is obsolete. The cache ends a running informer, which then closes its
// collection itself. Close of a running informer only announces that end, so that informer.New waits for it.
func (a *adapter) closeUnrun(id entry.Identity) error {
	a.mu.Lock()
	old := a.made[id.ID()]
	delete(a.made, id.ID())
	a.mu.Unlock()
	if old == nil {
		return nil
	}
	return old.Close()
}

// exampleOf returns an empty object of obj's type and kind. obj itself may be the object that a caller of Get passed,
// so it must not be kept.
func exampleOf(obj runtime.Object) runtime.Object {
	var example runtime.Object
	switch obj.(type) {
	case runtime.Unstructured:
		example = &unstructured.Unstructured{}
	case *metav1.PartialObjectMetadata:
		example = &metav1.PartialObjectMetadata{}
	default:
		return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
	}
	example.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	return example
}

func describe(obj runtime.Object) string {
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		return fmt.Sprintf("%s (%T)", gvk, obj)
	}
	return fmt.Sprintf("%T", obj)
}

// narrowing returns a ListerWatcher that supports look-ups of single objects by a field selector. A field selector of
// controller-runtime's ListerWatcher would replace the look-up's. So narrowing passes the look-up's field selector in
// the context, and the transport adds it to the request.
func narrowing(lw cache.ListerWatcherWithContext) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.FieldSelector != "" {
				ctx = withSelection(ctx, o.FieldSelector)
			}
			return lw.ListWithContext(ctx, o)
		},
		WatchFuncWithContext: lw.WatchWithContext,
	}
}
