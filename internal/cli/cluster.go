package cli

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// counter counts the bytes that its connections receive: what the network
// carries, with headers, TLS and compression as they are.
type counter struct {
	received atomic.Int64
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

// countBytes makes config dial through a new counter. Each config so treated
// gets connections of its own, which is what tells the resources' bytes apart.
func countBytes(config *rest.Config) (*rest.Config, *counter) {
	c := &counter{dial: config.Dial}
	if c.dial == nil {
		c.dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	config = rest.CopyConfig(config)
	config.Dial = c.dialCounted
	return config, c
}

func (c *counter) dialCounted(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, counter: c}, nil
}

type countedConn struct {
	net.Conn
	counter *counter
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counter.received.Add(int64(n))
	return n, err
}

// connection is the way to the server of one resource.
type connection struct {
	http    *http.Client
	dynamic dynamic.Interface
	meta    metadata.Interface
	raw     rest.Interface
	counter *counter
}

func connect(config *rest.Config) (*connection, error) {
	c := &connection{}
	config, c.counter = countBytes(config)
	var err error
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, c.http); err != nil {
		return nil, err
	}
	if c.meta, err = metadata.NewForConfigAndClient(config, c.http); err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, err
	}
	c.raw = d.RESTClient()
	return c, nil
}

// listWatch lists and watches what the identity selects.
func (c *connection) listWatch(id store.Identity) *cache.ListWatch {
	objects := c.dynamic.Resource(id.GroupVersionResource).Namespace(id.Namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, selected(id, o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, selected(id, o))
		},
	}
}

// lookup reads the identity of one object by metadata. It lists, with the
// identity's selectors: that needs no permission that the mirror does not need anyway, and an object that has
// left the selection is gone.
func (c *connection) lookup(id store.Identity) func(context.Context, string) (reflector.ObjectRef, bool, error) {
	return func(ctx context.Context, key string) (reflector.ObjectRef, bool, error) {
		namespace, name, err := cache.SplitMetaNamespaceKey(key)
		if err != nil {
			return reflector.ObjectRef{}, false, err
		}
		o := selected(id, metav1.ListOptions{Limit: 1, FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
		list, err := c.meta.Resource(id.GroupVersionResource).Namespace(namespace).List(ctx, o)
		if err != nil || len(list.Items) == 0 {
			return reflector.ObjectRef{}, false, err
		}
		item := list.Items[0]
		return reflector.ObjectRef{Key: key, UID: string(item.UID), ResourceVersion: item.ResourceVersion}, true, nil
	}
}

// selected adds the identity's selectors to a request's own.
func selected(id store.Identity, o metav1.ListOptions) metav1.ListOptions {
	o.LabelSelector = id.LabelSelector
	switch {
	case o.FieldSelector == "":
		o.FieldSelector = id.FieldSelector
	case id.FieldSelector != "":
		o.FieldSelector += "," + id.FieldSelector
	}
	return o
}
