package subject

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
)

type client struct {
	// rest reads the cluster's id and the hash of its schemas.
	rest rest.Interface
	// answers sends the requests whose answers Larder decodes itself, without client-go, as Larder's factories do.
	answers rest.Interface
	// plain is the function pair that lists and watches. lw has the same functions for client-go, and also reports whether
	// the client supports WatchList.
	plain *cache.ListWatch
	lw    cache.ListerWatcher
}

func (c *client) listWatch(id entry.Identity) cache.ListerWatcher {
	return requests.WithRequest(c.plain, func(o metav1.ListOptions) *rest.Request {
		return requests.Request(c.answers, id, o)
	})
}

// newClient returns a client with its own connections. It uses protobuf for typed objects, and otherwise JSON.
func newClient(config *rest.Config, kind load.Kind, dynamicObjects bool) (*client, error) {
	if !dynamicObjects {
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &client{rest: kube.CoreV1().RESTClient()}
	c.answers = c.rest
	if !dynamicObjects {
		c.plain = cache.NewFilteredListWatchFromClient(c.rest, kind.Name, metav1.NamespaceAll,
			func(*metav1.ListOptions) {})
		c.lw = cache.ToListWatcherWithWatchListSemantics(c.plain, kube)
		return c, nil
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if c.answers, err = rest.UnversionedRESTClientFor(dynamic.ConfigFor(config)); err != nil {
		return nil, err
	}
	resource := objects.Resource(kind.GVR)
	c.plain = &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}
	c.lw = cache.ToListWatcherWithWatchListSemantics(c.plain, objects)
	return c, nil
}
