package serve_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
)

type noUsers struct{}

func (noUsers) Authenticate(*http.Request) (access.User, bool, error) {
	return access.User{}, false, nil
}

// forwarding returns a server that forwards requests over TLS and HTTP/2 to the handler upstream. The function bound
// derives the contexts of the server's requests.
func forwarding(t *testing.T, upstream http.HandlerFunc, bound func(context.Context) context.Context) *httptest.Server {
	t.Helper()
	api := httptest.NewUnstartedServer(upstream)
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	forward, err := serve.Forward(&rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, noUsers{})
	must(t, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		forward.ServeHTTP(w, r.WithContext(bound(r.Context())))
	}))
	t.Cleanup(s.Close)
	return s
}

func unbounded(ctx context.Context) context.Context { return ctx }

// TestForwardUpgrades checks that only exec is forwarded over HTTP/1.1, since HTTP/2 has no upgrades.
func TestForwardUpgrades(t *testing.T) {
	s := forwarding(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, r.Proto)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("echo " + line)
		_ = rw.Flush()
	}, unbounded)
	r, err := http.NewRequest(http.MethodGet, s.URL+"/api/v1/nodes", nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer t")
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	must(t, answer.Body.Close())
	if string(body) != "HTTP/2.0" {
		t.Errorf("a request was forwarded by %s", body)
	}

	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST /api/v1/namespaces/a/pods/p/exec HTTP/1.1\r\nHost: larder\r\n"+
		"Authorization: Bearer t\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
	must(t, err)
	from := bufio.NewReader(conn)
	answer, err = http.ReadResponse(from, r)
	must(t, err)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s: %s", answer.Status, body)
	}
	_, err = io.WriteString(conn, "hello\n")
	must(t, err)
	if line, err := from.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// TestForwardedFor checks that the API server receives, for its audit log, the caller's address after the addresses of
// earlier proxies (issue 37).
func TestForwardedFor(t *testing.T) {
	s := forwarding(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(r.Header.Values("X-Forwarded-For"), ", "))
	}, unbounded)
	for before, want := range map[string]string{"": "127.0.0.1", "203.0.113.7": "203.0.113.7, 127.0.0.1"} {
		r, err := http.NewRequest(http.MethodGet, s.URL+"/api/v1/nodes", nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer t")
		if before != "" {
			r.Header.Set("X-Forwarded-For", before)
		}
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		if string(body) != want {
			t.Errorf("X-Forwarded-For is %q, want %q", body, want)
		}
	}
}

func TestForwardErrors(t *testing.T) {
	late := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(apierrors.NewTimeoutError("the request took longer than a minute", 1))
		return ctx
	}
	broken := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if errors.Is(err, http.ErrNotSupported) {
			panic(http.ErrAbortHandler)
		}
		_ = conn.Close()
	}
	reads := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for name, tt := range map[string]struct {
		upstream http.HandlerFunc
		bound    func(context.Context) context.Context
		size     int
		want     int
	}{
		"too slow":  {reads, late, 1, http.StatusGatewayTimeout},
		"too large": {reads, unbounded, 2 << 20, http.StatusRequestEntityTooLarge},
		"broken":    {broken, unbounded, 1, http.StatusServiceUnavailable},
	} {
		s := forwarding(t, tt.upstream, tt.bound)
		sent := io.MultiReader(strings.NewReader(strings.Repeat("a", tt.size))) // of unknown size
		r, err := http.NewRequest(http.MethodPost, s.URL+"/api/v1/nodes", sent)
		must(t, err)
		r.Header.Set("Authorization", "Bearer t")
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		body, _ := io.ReadAll(answer.Body)
		must(t, answer.Body.Close())
		if answer.StatusCode != tt.want {
			t.Errorf("%s: %s: %s", name, answer.Status, body)
		}
	}
}

// TestForwardSuspended checks that a forwarded stream ends if its client has stopped reading, although the client's
// kernel still answers: after the write deadline, and when the Handler is closed.
func TestForwardSuspended(t *testing.T) {
	flooding := make(chan struct{}, 1)
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := make([]byte, 64<<10)
		for n := 0; r.Context().Err() == nil; n++ {
			if _, err := w.Write(text); err != nil {
				return
			}
			if n == 200 { // 200 responses are more than the client's kernel buffers
				flooding <- struct{}{}
			}
		}
	}))
	defer api.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	forward, err := serve.Forward(&rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, noUsers{})
	must(t, err)
	h, err := serve.New(serve.Store(smallStore(t)), serve.Options{Forward: forward})
	must(t, err)
	s := httptest.NewServer(access.NewHandler(h, access.HandlerOptions{Authenticator: everybody{}}))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /api/v1/namespaces/a/pods/p/log?follow=true HTTP/1.1\r\nHost: larder\r\n"+
		"Authorization: Bearer t\r\n\r\n")
	must(t, err)
	select {
	case <-flooding:
	case <-time.After(5 * time.Second): // the whole stream fits into kernels and buffers
	}
	closed := make(chan error)
	go func() { closed <- h.Close() }()
	select {
	case err := <-closed:
		must(t, err)
	case <-time.After(time.Minute):
		_ = conn.Close()
		t.Error("the handler waits for the client")
		must(t, <-closed)
	}
}

type everybody struct{}

func (everybody) Authenticate(*http.Request) (access.User, bool, error) {
	return access.User{Username: "jane"}, true, nil
}

// TestForwardsDiscovery checks that discovery and schemas that are not stored are forwarded, if the credentials of the
// request can be forwarded. While the API server is unreachable, the stored ones are served (issue 37).
func TestForwardsDiscovery(t *testing.T) {
	for _, stored := range []bool{false, true} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("upstream"))
		}))
		forward, err := serve.Forward(&rest.Config{Host: api.URL}, noUsers{})
		must(t, err)
		st := smallStore(t)
		if stored {
			known := facts.DiscoveryOf([]*metav1.APIGroup{{Versions: []metav1.GroupVersionForDiscovery{
				{GroupVersion: "v1", Version: "v1"}}}}, []*metav1.APIResourceList{{GroupVersion: "v1",
				APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: []string{"get"}}}}})
			must(t, known.Put(t.Context(), st))
		}
		h, err := serve.New(serve.Store(st), serve.Options{Forward: forward})
		must(t, err)
		get := func(path, token string) (int, string) {
			r := httptest.NewRequest("GET", path, nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		for path, always := range map[string]bool{"/api": false, "/apis": false, "/api/v1": false, "/openapi/v3": true,
			"/openapi/v3/api/v1": true, "/openapi/v2": true, "/version": true, "/apis/apps/v1": true} {
			code, body := get(path, "theirs")
			if forwarded := body == "upstream"; forwarded != (always || !stored) {
				t.Errorf("stored %t: %s: %d, forwarded %t: %s", stored, path, code, forwarded, body)
			}
			if code, body := get(path, ""); body == "upstream" {
				t.Errorf("stored %t: %s is forwarded without credentials: %d", stored, path, code)
			}
		}
		api.Close()
		for _, path := range []string{"/api", "/api/v1", "/openapi/v3", "/version"} {
			if code, body := get(path, "theirs"); code != http.StatusOK {
				t.Errorf("stored %t: %s while the API server is away: %d %s", stored, path, code, body)
			}
		}
		must(t, h.Close())
	}
}
