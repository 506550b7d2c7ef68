package requests

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// RESTListWatch is a ListerWatcher whose requests an informer sends itself, to read the answers without decoding them
// (informer.Options.ClientDecodes), and to list metadata (informer.Options.ListMetadata).
type RESTListWatch struct {
	*cache.ListWatch
	request func(o metav1.ListOptions) *rest.Request
}

// Request returns the request for a list or, with o.Watch, for a watch.
func (l *RESTListWatch) Request(o metav1.ListOptions) *rest.Request { return l.request(o) }

// WithRequest returns lw as a RESTListWatch with the given request function, such as one that calls Request.
func WithRequest(lw *cache.ListWatch, request func(o metav1.ListOptions) *rest.Request) *RESTListWatch {
	return &RESTListWatch{lw, request}
}

// ListWatch returns a ListerWatcher for informer.New that lists the resource, namespace and selectors of id. client is
// any REST client of the cluster whose scheme knows the objects, such as clientset.CoreV1().RESTClient() for the types
// of client-go. Selectors in a request's options are added to id's selectors, so that single objects can be looked up.
func ListWatch(client cache.Getter, id entry.Identity) *RESTListWatch {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return Request(client, id, o).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return Request(client, id, o).Watch(ctx)
		},
	}
	return WithRequest(lw, func(o metav1.ListOptions) *rest.Request { return Request(client, id, o) })
}

// Client is implemented by the client of a type in a generated clientset, by its fake, and by the client of a resource
// in client-go's dynamic and metadata clients. L is its list type.
type Client[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// ClientListWatch returns a ListerWatcher for informer.New that uses client, such as clientset.CoreV1().Pods("shop").
// The same code then runs in unit tests with a fake clientset. client must be for the resource and the namespace of id;
// the selectors are taken from id.
func ClientListWatch[L runtime.Object](client Client[L], id entry.Identity) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, selected(id, o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, selected(id, o))
		},
	}
}

func selected(id entry.Identity, o metav1.ListOptions) metav1.ListOptions {
	o.LabelSelector = both(id.LabelSelector, o.LabelSelector)
	o.FieldSelector = both(id.FieldSelector, o.FieldSelector)
	o.ShardSelector = id.Shards().String() // API servers require all digits of the shard's bounds
	return o
}

// Request returns a list request for the objects of id, or a watch request with o.Watch. o may add selectors.
func Request(client cache.Getter, id entry.Identity, o metav1.ListOptions) *rest.Request {
	o = selected(id, o)
	root := []string{"/apis", id.Group, id.Version}
	if id.Group == "" {
		root = []string{"/api", id.Version}
	}
	r := client.Get().AbsPath(root...).Namespace(id.Namespace).Resource(id.Resource).VersionedParams(&o,
		metav1.ParameterCodec)
	switch {
	case id.Representation != entry.Metadata:
	case o.Watch:
		r.SetHeader("Accept", accept(asMetadata))
	default:
		r.SetHeader("Accept", accept(asMetadataList))
	}
	return r
}

// both returns a selector of the objects that match both a and b. An empty selector matches everything.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}
