package e2e

import (
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// traffic counts the requests of a client that are under way, and the most that there were. A list is under way until
// its last byte has come, every other request until it is answered.
type traffic struct {
	mu sync.Mutex
	// asking are those that have no answer yet, lists those that have not come; with the most that there were of each;
	// guarded by mu.
	asking, lists, maxAsking, maxLists int
	total                              int // guarded by mu
}

// of returns a copy of the config whose requests are counted.
func (n *traffic) of(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counted{n, next} })
	return cfg
}

// sinceReset returns what was counted since the last call.
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

// counts is how long a request counts that has no answer: less than the time after which it has no place.
const counts = 100 * time.Millisecond

// counted is a client's transport.
type counted struct {
	*traffic
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	list := 0
	// A list with a time-out is the page of metadata that a connect compares: small, and bounded as connects are.
	if q := req.URL.Query(); q.Has("limit") && q.Get("limit") != "1" && (!q.Has("timeoutSeconds") || q.Has("watch")) {
		list = 1
	}
	c.add(1, list)
	// A request that waits for longer holds up no other: it has no place from then on, and is not counted.
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

// lastByte calls done when all has been read, or nobody wants it any more.
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
