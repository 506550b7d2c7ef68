package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// filter is an HTTP proxy that drops the watch events of some objects. It forwards lists and bookmarks.
type filter struct {
	server *httptest.Server

	mu        sync.Mutex // mu guards the fields below
	names     map[string]bool
	swallowed int
}

func newFilter(t *testing.T, cfg *rest.Config) *filter {
	t.Helper()
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &filter{}
	f.server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ModifyResponse: func(resp *http.Response) error {
			if resp.Request.URL.Query().Get("watch") != "" && resp.StatusCode == http.StatusOK {
				resp.Body = &filtered{f: f, body: resp.Body, lines: bufio.NewReader(resp.Body)}
			}
			return nil
		},
	})
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

func (f *filter) config(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Host = f.server.URL
	cfg.TLSClientConfig = rest.TLSClientConfig{}
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	return cfg
}

func (f *filter) swallow(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = map[string]bool{}
	for _, name := range names {
		f.names[name] = true
	}
}

func (f *filter) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.swallowed
}

func (f *filter) passes(line []byte) bool {
	var event struct {
		Object struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"object"`
	}
	if json.Unmarshal(line, &event) != nil {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.names[event.Object.Metadata.Name] {
		return true
	}
	f.swallowed++
	return false
}

type filtered struct {
	f     *filter
	body  io.ReadCloser
	lines *bufio.Reader
	rest  bytes.Reader
}

func (b *filtered) Read(p []byte) (int, error) {
	for b.rest.Len() == 0 {
		line, err := b.lines.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if b.f.passes(line) {
			b.rest.Reset(line)
		}
	}
	return b.rest.Read(p)
}

func (b *filtered) Close() error { return b.body.Close() }
