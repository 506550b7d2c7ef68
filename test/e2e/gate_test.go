package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

type gate struct {
	server   *httptest.Server
	resource string

	mu      sync.Mutex // mu guards the fields below
	after   int        // number of pages to forward; -1 for all
	passed  int
	reached chan struct{} // closed when a page is withheld
}

func newGate(t *testing.T, cfg *rest.Config, resource string) *gate {
	t.Helper()
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{resource: resource, after: -1}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.hold(r) {
			<-r.Context().Done() // waits until the client closes the connection
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
	})
	return g
}

func (g *gate) config(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Host = g.server.URL
	cfg.TLSClientConfig = rest.TLSClientConfig{}
	return cfg
}

// holdListAfter makes the proxy forward n pages of the next list and withhold the following page. reached is closed
// when the client requests that page.
func (g *gate) holdListAfter(n int) (reached <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.after, g.passed, g.reached = n, 0, make(chan struct{})
	return g.reached
}

// hold reports whether a request is withheld. Reads of the current resourceVersion, look-ups of one object and metadata
// comparisons are always forwarded.
func (g *gate) hold(r *http.Request) bool {
	q := r.URL.Query()
	if !strings.HasSuffix(r.URL.Path, "/"+g.resource) || q.Get("watch") != "" || q.Get("limit") == "1" ||
		q.Get("timeoutSeconds") != "" ||
		strings.Contains(q.Get("fieldSelector"), "metadata.name=") {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.after < 0 {
		return false
	}
	if g.passed < g.after {
		g.passed++
		return false
	}
	if g.passed == g.after {
		g.passed++
		close(g.reached)
	}
	return true
}
