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

// RESTListWatch is a ListerWatcher that also tells which requests it makes. An informer makes them itself, and reads
// the answers without decoding them (informer.Options.ClientDecodes). It also makes them for metadata
// (informer.Options.ListMetadata).
type RESTListWatch struct {
	*cache.ListWatch
	request func(o metav1.ListOptions) *rest.Request
}

// Request returns the request for a list or, with o.Watch, for a watch.
func (l *RESTListWatch) Request(o metav1.ListOptions) *rest.Request { return l.request(o) }

// WithRequest returns lw as a ListerWatcher that makes those requests, such as Request's.
func WithRequest(lw *cache.ListWatch, request func(o metav1.ListOptions) *rest.Request) *RESTListWatch {
	return &RESTListWatch{lw, request}
}

// ListWatch returns a ListerWatcher for informer.New that lists the resource, namespace and selectors of id. client is
// any REST client of the cluster whose scheme knows the objects, such as clientset.CoreV1().RESTClient() for the types
// of client-go. Selectors in the options of a request are added to those of id, so that single objects can be looked
// up.
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

// Client has the methods that the client of one type has in a generated clientset and in its fake, and the client of a
// resource in client-go's dynamic and metadata clients. L is the type of its lists.
type Client[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// ClientListWatch returns a ListerWatcher for informer.New that uses client, such as clientset.CoreV1().Pods("shop"),
// so that the same code runs in unit tests with a fake clientset. client must be for the resource and the namespace of
// id; the selectors are taken from id.
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

// selected returns o with the selectors of id added.
func selected(id entry.Identity, o metav1.ListOptions) metav1.ListOptions {
	o.LabelSelector = both(id.LabelSelector, o.LabelSelector)
	o.FieldSelector = both(id.FieldSelector, o.FieldSelector)
	o.ShardSelector = id.Shards().String() // with all digits, which API servers insist on
	return o
}

// Request returns a request for the objects that id describes, with the options o: for a list or, with o.Watch, for a
// watch. Selectors in o are added to those of id.
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

// both returns a selector of the objects that both a and b select. An empty selector selects everything.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}
