package factory

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

// NewDynamicSharedInformerFactory returns a factory like dynamicinformer's, with Larder's informers. If the options are
// invalid, every informer and lister that ForResource returns fails with the reason.
func NewDynamicSharedInformerFactory(
	client dynamic.Interface, defaultResync time.Duration, o Options,
) dynamicinformer.DynamicSharedInformerFactory {
	made, err := o.connect(dynamic.ConfigFor)
	return newUntypedFactory(defaultResync, o, form{
		err:     err,
		example: func() runtime.Object { return &unstructured.Unstructured{} },
		codec:   codec.UnstructuredWith(scheme.Scheme), // a store of larder sync may contain protobuf
		listWatch: func(id entry.Identity) cache.ListerWatcher {
			return reading(made, client.Resource(id.GroupVersionResource).Namespace(id.Namespace), id)
		},
		lister: func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
			return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, gvr))
		},
		clusterID: clusterID(client, func(ctx context.Context, name string) (metav1.Object, error) {
			return client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
		}),
		schemas: schemas(o.RESTClient),
	})
}
