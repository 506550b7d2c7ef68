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

	"github.com/larder-dev/larder/entry"
)

// NewMetadataSharedInformerFactory returns a factory like metadatainformer's, with Larder's informers. If the options
// are invalid, every informer and lister that ForResource returns fails with the reason.
func NewMetadataSharedInformerFactory(
	client metadata.Interface, defaultResync time.Duration, o Options,
) metadatainformer.SharedInformerFactory {
	made, err := o.connect(metadata.ConfigFor)
	return newUntypedFactory(defaultResync, o, form{
		err:     err,
		example: func() runtime.Object { return &metav1.PartialObjectMetadata{} },
		listWatch: func(id entry.Identity) cache.ListerWatcher {
			id.Representation = entry.Metadata
			return reading(made, client.Resource(id.GroupVersionResource).Namespace(id.Namespace), id)
		},
		lister: func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
			return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, gvr))
		},
		clusterID: clusterID(client, func(ctx context.Context, name string) (metav1.Object, error) {
			return client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
		}),
	})
}
