package factory

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
)

// NewInformer returns the informer of one resource, for InformerFor of an informer factory that was generated with a
// clientset:
//
//	f := externalversions.NewSharedInformerFactory(client, resync)
//	f.InformerFor(&v1.Foo{}, func(c versioned.Interface, resync time.Duration) cache.SharedIndexInformer {
//		return factory.NewInformer(c.ExampleV1().RESTClient(), v1.SchemeGroupVersion.WithResource("foos"), &v1.Foo{},
//			informer.Options{Store: st, ResyncPeriod: resync})
//	})
//
// client is the clientset's REST client for the resource's group, because its scheme knows the objects. It lists and
// watches, and makes the requests of the guards. The namespace and the selectors are taken from the Identity of the
// informer.Options; the default is all objects. Identity.GroupVersionResource, OpenAPIHash and ListMetadata must be
// empty, since NewInformer derives them. An index by namespace is added. The generated factory sets the transform
// (WithTransform), which needs informer.Options.TransformVersion; without it the run fails.
//
// NewInformer cannot return an error. If no informer can be made, it returns informer.Refused with the reason. Fake
// clientsets have no REST client, and are refused: use informer.New with requests.ClientListWatch in their unit tests.
func NewInformer(
	client rest.Interface, gvr schema.GroupVersionResource, example runtime.Object, o informer.Options,
) cache.SharedIndexInformer {
	inf, err := newGenerated(client, gvr, example, o)
	if err != nil {
		return informer.Refused(example, fmt.Errorf("informer of %s: %w", gvr.GroupResource(), err))
	}
	return inf
}

func newGenerated(
	client rest.Interface, gvr schema.GroupVersionResource, example runtime.Object, o informer.Options,
) (*informer.Informer, error) {
	switch {
	case missing(client):
		return nil, errors.New("there is no REST client, as in a fake clientset: use informer.New with " +
			"requests.ClientListWatch")
	case !o.Identity.GroupVersionResource.Empty():
		return nil, errors.New("Options.Identity.GroupVersionResource must be empty: it is an argument")
	case o.OpenAPIHash != nil || o.ListMetadata != nil:
		return nil, errors.New("Options.OpenAPIHash and Options.ListMetadata must be empty: they are made from the client")
	}
	m := maker{
		o:         Options{Informer: o, RESTClient: client},
		scope:     o.Identity,
		clusterID: requests.KubeSystemUID(client),
		schemas:   requests.NewSchemas(client),
	}
	id := m.identity(gvr)
	return informer.New(requests.ListWatch(client, id), example, m.options(id))
}
