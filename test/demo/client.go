package demo

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/connrotation"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
)

type client struct {
	// Interface is a REST client for the core group, version v1. A clientset would add 10 MB to the program.
	rest.Interface
	userAgent string
	received  atomic.Int64
	dialer    *connrotation.Dialer

	mu       sync.Mutex // mu guards the fields below
	watching bool
	answered time.Time
}

func newClient(cluster Cluster, userAgent string) (*client, error) {
	c := &client{userAgent: userAgent}
	config := rest.CopyConfig(cluster.Config(userAgent))
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	c.dialer = connrotation.NewDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &clientConn{Conn: conn, client: c}, nil
	})
	config.Dial = c.dialer.DialContext
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &clientTransport{client: c, next: next} })
	var err error
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion()
	c.Interface, err = rest.RESTClientFor(config)
	return c, err
}

func (c *client) close() { c.dialer.CloseAll() }

// noteAnswer makes firstAnswer return the time of the next successful answer.
func (c *client) noteAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watching, c.answered = true, time.Time{}
}

// firstAnswer returns the time of the first successful answer since noteAnswer, or the zero time.
func (c *client) firstAnswer() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

type clientConn struct {
	net.Conn
	client *client
}

func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.client.received.Add(int64(n))
	return n, err
}

type clientTransport struct {
	client *client
	next   http.RoundTripper
}

func (t *clientTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(q)
	if err == nil && response.StatusCode < http.StatusMultipleChoices {
		c := t.client
		c.mu.Lock()
		if c.watching {
			c.watching, c.answered = false, time.Now()
		}
		c.mu.Unlock()
	}
	return response, err
}

// listWatch returns a ListerWatcher for the pods of a namespace. traits is a client from which client-go learns whether
// WatchList is supported.
func (c *client) listWatch(namespace string, traits any) cache.ListerWatcher {
	id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: namespace}
	return cache.ToListWatcherWithWatchListSemantics(requests.ListWatch(c, id).ListWatch, traits)
}
