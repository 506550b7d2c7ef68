package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// TestTokenIsRenewed checks that requests use the kubeconfig's new token once the server rejects the old one. A
// kubeconfig that is being written, names another server or has another current context changes nothing
// (bonnefoa/kubectl-fzf#28, derailed/k9s#3678).
func TestTokenIsRenewed(t *testing.T) {
	var mu sync.Mutex
	valid, seen := "one", []string{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Authorization"))
		if r.Header.Get("Authorization") != "Bearer "+valid {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "config")
	write := func(current, host, token string) {
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":%q,
"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}},
{"name":"other","cluster":{"server":"https://other.example.com"}}],
"users":[{"name":"u","user":{"token":%q}},{"name":"other","user":{"token":"others"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}},
{"name":"other","context":{"cluster":"other","user":"other"}}]}`,
			current, host, token)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("c", server.URL, "one")
	flags := NewFlags()
	flags.Kubeconfig = path
	config, err := Config(flags)
	if err != nil {
		t.Fatal(err)
	}
	client := mustServer(t, config).http
	ask := func(header string) error {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			req.Header.Set("Authorization", header)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // nothing was read
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
	if err := ask(""); err != nil {
		t.Error(err)
	}
	mu.Lock()
	valid = "two"
	mu.Unlock()
	if err := os.WriteFile(path, []byte(`{"apiVersion`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ask("") == nil {
			t.Error("the old token is accepted")
		}
	}
	write("c", "https://other.example.com", "two")
	if ask("") == nil {
		t.Error("the old token is accepted")
	}
	write("other", server.URL, "two")
	if ask("Bearer somebody's") == nil || ask("") == nil {
		t.Error("a wrong token is accepted")
	}
	if err := ask(""); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"Bearer one", "Bearer one", "Bearer one", "Bearer one", "Bearer somebody's", "Bearer one",
		"Bearer two"}
	if !slices.Equal(seen, want) {
		t.Errorf("requests with %q, want %q", seen, want)
	}
}

// TestTokenIsReadOnce checks that only one request at a time rereads the kubeconfig after a 401, and that a slow read
// blocks no other request.
func TestTokenIsReadOnce(t *testing.T) {
	reading, goOn := make(chan struct{}), make(chan struct{})
	r := &renewal{host: "h", first: "one", token: "one", read: func() (*rest.Config, error) {
		reading <- struct{}{}
		<-goOn
		return &rest.Config{Host: "h", BearerToken: "two"}, nil
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.refused("one")
	}()
	<-reading
	if !r.mu.TryLock() {
		t.Fatal("the next request waits for the kubeconfig")
	}
	r.mu.Unlock()
	r.refused("one") // must return at once, although another request is reading the kubeconfig
	if got := r.current(); got != "one" {
		t.Errorf("the token is %q", got)
	}
	close(goOn)
	<-done
	if got := r.current(); got != "two" {
		t.Errorf("the token is %q", got)
	}
}
