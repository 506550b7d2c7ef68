package field

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/store"
)

// http2 returns an HTTP/2 server that is not started. The server forwards requests to the trial's proxy.
func (w *World) http2(listener net.Listener) *httptest.Server {
	front := httptest.NewUnstartedServer(w.proxy.Config.Handler)
	_ = front.Listener.Close()
	front.Listener, front.EnableHTTP2 = listener, true
	return front
}

func (w *World) listen(address string) net.Listener {
	w.Helper()
	listener, err := net.Listen("tcp", address)
	w.must(err)
	return listener
}

// longOutage repeats this case: the API server sends GOAWAY, is down for long, and returns without its watch history.
func longOutage(w *World) {
	for n := range 10 {
		w.create(pod("a", fmt.Sprintf("x%d", n), "1", ""))
	}
	front := w.http2(w.listen("127.0.0.1:0"))
	front.StartTLS()
	w.config.Host, w.config.TLSClientConfig = front.URL, rest.TLSClientConfig{Insecure: true}
	r := w.start(nil)
	ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
	_ = front.Config.Shutdown(ctx) // the shutdown sends GOAWAY
	cancel()
	front.CloseClientConnections()
	for n := range 9 {
		w.delete("a", fmt.Sprintf("x%d", n))
	}
	w.update(pod("a", "x9", "2", ""))
	w.server.LoseHistory(w.T)
	front = w.http2(w.listen(front.Listener.Addr().String()))
	front.StartTLS()
	for n := range 9 {
		r.saw(fmt.Sprintf("delete a/x%d=1", n))
	}
	r.saw("update a/x9=2")
	r.stop()
	front.CloseClientConnections()
	front.Close()
}

// manyStreams repeats this case: there are more watches than streams on one HTTP/2 connection.
func manyStreams(w *World) {
	front := w.http2(w.listen("127.0.0.1:0"))
	front.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 20}
	front.StartTLS()
	w.config.Host, w.config.TLSClientConfig = front.URL, rest.TLSClientConfig{Insecure: true}
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
	front.CloseClientConnections()
	front.Close()
}
