package e2e

import (
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// traffic counts concurrent requests of a client and their maximum. A list counts until its last byte, other requests
// until the headers of their answer.
type traffic struct {
	mu sync.Mutex
	// asking is the number of requests without an answer, and lists the number of incomplete lists. maxAsking and maxLists
	// are the maxima of asking and lists. mu guards all fields.
	asking, lists, maxAsking, maxLists int
	total                              int
}

func (n *traffic) of(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counted{n, next} })
	return cfg
}

func (n *traffic) sinceReset() (total, maxAsking, maxLists int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	total, maxAsking, maxLists = n.total, n.maxAsking, n.maxLists
	n.total, n.maxAsking, n.maxLists = 0, n.asking, n.lists
	return total, maxAsking, maxLists
}

func (n *traffic) add(asking, lists int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asking, n.lists = n.asking+asking, n.lists+lists
	n.maxAsking, n.maxLists = max(n.maxAsking, n.asking), max(n.maxLists, n.lists)
	n.total += max(asking, 0)
}

// counts is how long an unanswered request counts as concurrent. Larder's limiter ignores a request after 125 ms at the
// earliest; busy cores may delay the request by some of that.
const counts = 50 * time.Millisecond

type counted struct {
	*traffic
	next http.RoundTripper
}

func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	list := 0
	// A list with a timeout is the page of metadata that a connecting informer compares. The page is small, and Larder's
	// limiter treats it as part of the connect.
	if q := req.URL.Query(); q.Has("limit") && q.Get("limit") != "1" && (!q.Has("timeoutSeconds") || q.Has("watch")) {
		list = 1
	}
	c.add(1, list)
	slow := time.AfterFunc(counts, func() { c.add(-1, -list) })
	resp, err := c.next.RoundTrip(req)
	switch {
	case !slow.Stop():
	case err != nil || list == 0:
		c.add(-1, -list)
	default:
		c.add(-1, 0)
		resp.Body = &lastByte{ReadCloser: resp.Body, done: sync.OnceFunc(func() { c.add(0, -1) })}
	}
	return resp, err
}

// lastByte is a response body that calls done once, at its end or when the body is closed.
type lastByte struct {
	io.ReadCloser
	done func()
}

func (b *lastByte) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

func (b *lastByte) Close() error {
	b.done()
	return b.ReadCloser.Close()
}
