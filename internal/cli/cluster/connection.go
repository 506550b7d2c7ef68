package cluster

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
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

// Connection is the way to the server of one resource. It shares no network connection with another, which is what
// tells the resources' bytes apart.
type Connection struct {
	HTTP    *http.Client
	dynamic dynamic.Interface
	meta    metadata.Interface
	// watches are the same clients with no bound on how long an answer may take.
	watches struct {
		dynamic dynamic.Interface
		meta    metadata.Interface
	}
	// answers makes the requests of which a sync reads the answers itself, lists and watches. They ask for JSON unless
	// their Accept header is set.
	answers  struct{ lists, watches rest.Interface }
	Raw      rest.Interface
	Schemas  *requests.Schemas
	Received meter.Received
	// Failed is why the last list of a listing failed; nil if it did not. It belongs to who saves.
	Failed error
}

// Connect makes the clients; it does not contact the server.
func Connect(config *rest.Config) (*Connection, error) {
	c := &Connection{}
	config = c.Received.Count(config)
	var err error
	if c.HTTP, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, c.HTTP); err != nil {
		return nil, err
	}
	if c.meta, err = metadata.NewForConfigAndClient(config, c.HTTP); err != nil {
		return nil, err
	}
	endless := *c.HTTP // over the same connections
	endless.Timeout = 0
	if c.watches.dynamic, err = dynamic.NewForConfigAndClient(config, &endless); err != nil {
		return nil, err
	}
	if c.watches.meta, err = metadata.NewForConfigAndClient(config, &endless); err != nil {
		return nil, err
	}
	objects := dynamic.ConfigFor(config)
	objects.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // of the server's errors, which may be protobuf
	for _, made := range []struct {
		client *rest.Interface
		config *rest.Config
		http   *http.Client
	}{
		{&c.answers.lists, objects, c.HTTP}, {&c.answers.watches, objects, &endless},
	} {
		if *made.client, err = rest.UnversionedRESTClientForConfigAndClient(made.config, made.http); err != nil {
			return nil, err
		}
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(config, c.HTTP)
	if err != nil {
		return nil, err
	}
	c.Raw = d.RESTClient()
	c.Schemas = requests.NewSchemas(c.Raw)
	return c, nil
}

// ListWatch lists and watches what the identity selects, in its representation: unstructured or metadata. What bounds a
// request (--request-timeout) does not bound a watch, which would be cut again and again.
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

// listWatch asks for what the identity selects. L is a list of a client's.
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

// selected adds the identity's selectors to a request's own.
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

// Described is a resource with the columns of its definition, if it has one that can be read: discovery does not tell
// them.
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

// Listing lists one collection.
func (c *Connection) Listing(ctx context.Context, id entry.Identity, r input.Resource, optional bool) snapshot.Listing {
	objects := c.dynamic.Resource(id.GroupVersionResource).Namespace(id.Namespace)
	schema, _ := c.Schemas.Hash(r.GroupVersion())(ctx) // unknown is no error: the server tells it later
	return snapshot.Listing{
		Identity: id, Resource: r.ResourceInfo, OpenAPI: schema, Optional: optional,
		List: func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
			list, err := objects.List(ctx, o)
			c.Failed = err
			return list, err
		},
	}
}
