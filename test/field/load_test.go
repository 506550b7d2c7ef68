package field_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/store"
)

// TestGoAway is kube-state-metrics#694: the API server says GOAWAY, is away for long, and has lost its history.
func TestGoAway(t *testing.T) {
	w := newWorld(t)
	for n := range 10 {
		w.create(pod("a", fmt.Sprintf("x%d", n), "1", ""))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	front := func(l net.Listener) *httptest.Server {
		target, _ := url.Parse(w.api.Config().Host)
		reverse := httputil.NewSingleHostReverseProxy(target)
		reverse.FlushInterval = -1
		s := httptest.NewUnstartedServer(reverse)
		_ = s.Listener.Close()
		s.Listener, s.EnableHTTP2 = l, true
		s.StartTLS()
		return s
	}
	server := front(listener)
	w.config.Host, w.config.TLSClientConfig = server.URL, rest.TLSClientConfig{Insecure: true}
	r := w.start(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	_ = server.Config.Shutdown(ctx) // GOAWAY
	cancel()
	server.CloseClientConnections()
	for n := range 9 {
		w.delete("a", fmt.Sprintf("x%d", n))
	}
	w.update(pod("a", "x9", "2", ""))
	w.api.Compact()
	listener, err = net.Listen("tcp", strings.TrimPrefix(server.URL, "https://"))
	w.must(err)
	server = front(listener)
	for n := range 9 {
		r.saw(fmt.Sprintf("delete a/x%d=1", n))
	}
	r.saw("update a/x9=2")
	r.stop()
	server.CloseClientConnections()
	server.Close()
}

// TestManyStreams is controller-runtime#1938: more watches than one HTTP/2 connection has streams.
func TestManyStreams(t *testing.T) {
	w := newWorld(t)
	target, _ := url.Parse(w.api.Config().Host)
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.FlushInterval = -1
	server := httptest.NewUnstartedServer(reverse)
	server.EnableHTTP2 = true
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 20}
	server.StartTLS()
	w.config.Host, w.config.TLSClientConfig = server.URL, rest.TLSClientConfig{Insecure: true}
	st, err := store.Open(w.path, store.Options{})
	w.must(err)
	var runs []*run
	for n := range 60 {
		w.create(pod(fmt.Sprintf("n%d", n), "x", "1", ""))
		runs = append(runs, w.startOn(st, w.config, fmt.Sprintf("n%d", n), nil))
	}
	for n, r := range runs {
		r.saw(fmt.Sprintf("add n%d/x=1", n))
	}
	for n := range runs {
		w.update(pod(fmt.Sprintf("n%d", n), "x", "2", ""))
	}
	for n, r := range runs {
		r.saw(fmt.Sprintf("update n%d/x=2", n))
	}
	for _, r := range runs {
		r.stop()
	}
	w.must(st.Close())
	server.CloseClientConnections()
	server.Close()
}

// TestChurn is opentelemetry-collector-contrib#47337 and kubernetes#102874: memory that grows with each object that was
// ever created.
func TestChurn(t *testing.T) {
	w := newWorld(t)
	w.config = w.api.Config()
	r := w.start(nil)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var after []uint64
	for round := range 4 {
		for n := range 2000 {
			w.create(pod("a", fmt.Sprintf("x%d-%d", round, n), fmt.Sprintf("10.%d.%d", round, n), fmt.Sprint(round, n)))
		}
		for n := range 2000 {
			w.delete("a", fmt.Sprintf("x%d-%d", round, n))
		}
		w.create(pod("b", fmt.Sprintf("last%d", round), "1", ""))
		r.saw(fmt.Sprintf("add b/last%d=1", round))
		w.must(r.File().Flush(t.Context()))
		w.api.Compact()
		r.calls.forget()
		after = append(after, heap())
	}
	if after[3] > after[1]+after[1]/2 {
		t.Errorf("heap after each round: %d", after)
	}
	t.Logf("heap after each round: %d", after)
}
