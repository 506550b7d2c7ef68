package listener_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/access/listener"
)

func (s *served) loopback(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.start(t, l))
	return l.Addr().String()
}

func (s *served) protocolOf(t *testing.T, addr string, protocols ...string) (protocol string, conn *tls.Conn) {
	t.Helper()
	config := s.client()
	config.NextProtos = protocols
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.ConnectionState().NegotiatedProtocol, conn
}

// TestMultiplex checks that a client that offers the protocol Multiplex gets HTTP/2 while few unauthenticated
// connections are open, and HTTP/1.1 otherwise.
func TestMultiplex(t *testing.T) {
	s := newServer(t, ok, access.Limits{Unauthenticated: 96})
	addr := s.loopback(t)
	for _, tt := range []struct {
		protocols []string
		want      string
	}{
		{nil, ""},
		{[]string{"http/1.1"}, "http/1.1"},
		{[]string{"h2", "http/1.1"}, "http/1.1"},
		{[]string{"h2", "http/1.1", listener.Multiplex}, "h2"},
		{[]string{"http/1.1", listener.Multiplex}, "http/1.1"},
	} {
		got, conn := s.protocolOf(t, addr, tt.protocols...)
		if conn.Close(); got != tt.want {
			t.Errorf("protocols %v: the server chose %q, want %q", tt.protocols, got, tt.want)
		}
	}
	got := "h2"
	for n := 0; got == "h2"; n++ {
		if n > 4 {
			t.Fatal("with many unauthenticated connections, clients get HTTP/2")
		}
		got, _ = s.protocolOf(t, addr, "h2", "http/1.1", listener.Multiplex)
	}
}

// TestMultiplexedRequests checks that requests of a client that offers Multiplex share HTTP/2 connections.
func TestMultiplexedRequests(t *testing.T) {
	var started sync.WaitGroup
	let := make(chan struct{})
	s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started.Done()
		<-let
		fmt.Fprint(w, r.Proto)
	}), access.Limits{Requests: 200, RequestsPerUser: 200})
	addr := s.loopback(t)
	var connections atomic.Int64
	config := s.client()
	config.NextProtos = []string{"h2", "http/1.1", listener.Multiplex}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			connections.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	get := func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer jane")
		r, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Body.Close()
		if body, err := io.ReadAll(r.Body); string(body) != "HTTP/2.0" || err != nil {
			t.Errorf("the answer is %q, %v", body, err)
		}
	}
	started.Add(1)
	var all sync.WaitGroup
	all.Go(get)
	started.Wait()
	started.Add(99)
	for range 99 {
		all.Go(get)
	}
	started.Wait()
	if n := connections.Load(); n != 1 {
		t.Errorf("100 requests opened %d connections, want 1", n)
	}
	started.Add(1)
	all.Go(get)
	started.Wait()
	close(let)
	all.Wait()
	if n := connections.Load(); n != 2 {
		t.Errorf("101 requests opened %d connections, want 2", n)
	}
}
