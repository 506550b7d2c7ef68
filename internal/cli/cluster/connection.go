package cluster

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/meter"
	"github.com/larder-dev/larder/snapshot"
)

// Connection makes the requests for one resource. All Connections of a Server share its network connections.
type Connection struct {
	*Server
	dynamic dynamic.Interface
	meta    metadata.Interface
	// watches has the clients for watches, which have no request timeout.
	watches struct {
		dynamic dynamic.Interface
		meta    metadata.Interface
	}
	// answers holds the clients for lists and watches whose response bodies a sync decodes itself. The clients request
	// JSON unless the Accept header is set.
	answers struct{ lists, watches rest.Interface }
	// Bodies counts the bytes of all response bodies of this resource as received, that is, compressed.
	Bodies meter.Received
	// Failed is the error of the last list of a Listing; nil if that list succeeded. Only the goroutine that saves the
	// snapshot may use it.
	Failed error
}

// Connect makes the clients for the requests of one resource. It does not contact the server.
func (s *Server) Connect() (*Connection, error) {
	c := &Connection{Server: s}
	counted := &http.Client{Transport: c.Bodies.CountBodies(s.http.Transport), Timeout: s.http.Timeout}
	var err error
	if c.dynamic, err = dynamic.NewForConfigAndClient(s.config, counted); err != nil {
		return nil, err
	}
	if c.meta, err = metadata.NewForConfigAndClient(s.config, counted); err != nil {
		return nil, err
	}
	endless := &http.Client{Transport: counted.Transport}
	if c.watches.dynamic, err = dynamic.NewForConfigAndClient(s.config, endless); err != nil {
		return nil, err
	}
	if c.watches.meta, err = metadata.NewForConfigAndClient(s.config, endless); err != nil {
		return nil, err
	}
	objects := dynamic.ConfigFor(s.config)
	// Error responses must be decodable even if the server sends them in protobuf.
	objects.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	if c.answers.lists, err = rest.UnversionedRESTClientForConfigAndClient(objects, counted); err != nil {
		return nil, err
	}
	c.answers.watches, err = rest.UnversionedRESTClientForConfigAndClient(objects, endless)
	return c, err
}

// ListWatch returns the functions that list and watch a collection, in the collection's representation: unstructured
// objects or metadata. --request-timeout does not apply to watches, because it would end every watch after that time.
func (c *Connection) ListWatch(id entry.Identity) *requests.RESTListWatch {
	gvr := id.GroupVersionResource
	lw := listWatch(id, c.dynamic.Resource(gvr).Namespace(id.Namespace).List,
		c.watches.dynamic.Resource(gvr).Namespace(id.Namespace).Watch)
	if id.Representation == entry.Metadata {
		lw = listWatch(id, c.meta.Resource(gvr).Namespace(id.Namespace).List,
			c.watches.meta.Resource(gvr).Namespace(id.Namespace).Watch)
	}
	return requests.WithRequest(lw, func(o metav1.ListOptions) *rest.Request {
		if o.Watch {
			return requests.Request(c.answers.watches, id, o)
		}
		return requests.Request(c.answers.lists, id, o)
	})
}

func listWatch[L runtime.Object](
	id entry.Identity, list func(context.Context, metav1.ListOptions) (L, error),
	watched func(context.Context, metav1.ListOptions) (watch.Interface, error),
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, selected(id, o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return watched(ctx, selected(id, o))
		},
	}
}

func selected(id entry.Identity, o metav1.ListOptions) metav1.ListOptions {
	o.LabelSelector, o.ShardSelector = id.LabelSelector, id.ShardSelector
	switch {
	case o.FieldSelector == "":
		o.FieldSelector = id.FieldSelector
	case id.FieldSelector != "":
		o.FieldSelector += "," + id.FieldSelector
	}
	return o
}

// Described returns r with the columns of its CustomResourceDefinition, which discovery lacks. If the definition cannot
// be read, it returns r unchanged.
func (c *Connection) Described(ctx context.Context, r input.Resource) input.Resource {
	if !IsCustom(r.GroupVersionResource) {
		return r
	}
	limited, cancel := context.WithTimeout(ctx, DefinitionWait)
	defer cancel()
	if info, err := c.Define(limited, r.GroupVersionResource); err == nil {
		r.ResourceInfo = info
	}
	return r
}

// Listing describes a list of one collection from the server, for a new snapshot.
func (c *Connection) Listing(ctx context.Context, id entry.Identity, r input.Resource, optional bool) snapshot.Listing {
	objects := c.dynamic.Resource(id.GroupVersionResource).Namespace(id.Namespace)
	// If the request fails, the hash is empty, and a later request fetches the schema's hash.
	schema, _ := c.Schemas.Hash(r.GroupVersion())(ctx)
	return snapshot.Listing{
		Identity: id, Resource: r.ResourceInfo, OpenAPI: schema, Optional: optional,
		List: func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
			list, err := objects.List(ctx, o)
			c.Failed = err
			return list, err
		},
	}
}
