package endpoint

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/larder-dev/larder/metrics"
)

func start(t *testing.T, o Options) (*Server, func(method, path string) (int, string)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	s.Start(l)
	client := &http.Client{}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, func(method, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
}

func TestEndpoints(t *testing.T) {
	var mu sync.Mutex
	checks := []Check{{Name: "pods"}, {Name: "nodes", Problem: "waiting"}}
	_, get := start(t, Options{Metrics: Metrics(metrics.New()), Ready: func() []Check {
		mu.Lock()
		defer mu.Unlock()
		return checks
	}})
	want := func(method, path string, code int, text string) {
		t.Helper()
		if got, body := get(method, path); got != code || !strings.Contains(body, text) {
			t.Errorf("%s %s: %d %s, want %d %s", method, path, got, body, code, text)
		}
	}
	want("GET", "/healthz", 200, "ok\n")
	want("GET", "/readyz", 503, "[+]pods ok\n[-]nodes waiting\nnot ready\n")
	mu.Lock()
	checks[1].Problem = ""
	mu.Unlock()
	want("GET", "/readyz", 200, "[+]pods ok\n[+]nodes ok\nready\n")
	want("GET", "/", 404, "")
	want("POST", "/healthz", 405, "")
	want("GET", "/metrics", 200, "go_goroutines ")
	_, get = start(t, Options{})
	want("GET", "/metrics", 404, "")
}

// TestClose checks that Close ends connections that neither send a request nor close, and that Close works without
// Start.
func TestClose(t *testing.T) {
	if err := New(Options{}).Close(); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{})
	s.Start(l)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open after Close")
	}
}
