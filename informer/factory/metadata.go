package factory

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"
)

// NewMetadataSharedInformerFactory returns a factory like metadatainformer's, with Larder's informers. If the options
// are invalid, everything that ForResource returns fails with the reason.
func NewMetadataSharedInformerFactory(
	client metadata.Interface, defaultResync time.Duration, o Options,
) metadatainformer.SharedInformerFactory {
	return newUntypedFactory(defaultResync, o, form{
		client:  client,
		example: func() runtime.Object { return &metav1.PartialObjectMetadata{} },
		requests: func(gvr schema.GroupVersionResource, namespace string) calls {
			return of(client.Resource(gvr).Namespace(namespace))
		},
		lister: func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
			return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, gvr))
		},
		clusterID: clusterID(client, func(ctx context.Context, name string) (metav1.Object, error) {
			return client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
		}),
	})
}
