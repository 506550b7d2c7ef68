package mirror

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSeedCredentials checks that a kubeconfig's credentials are sent only to the server in that kubeconfig.
func TestSeedCredentials(t *testing.T) {
	var received []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		received = append(received, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hidden" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other.URL, http.StatusFound)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := strings.ReplaceAll(`apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: SERVER, insecure-skip-tls-verify: true}}]
users: [{name: a, user: {token: hidden}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`, "SERVER", server.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := clientOf(path, other.URL+"/snapshot/"); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("for another server: %v", err)
	}
	client, err := clientOf(path, server.URL+"/snapshot/")
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	answer, err := client.Get(server.URL + "/snapshot/latest")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusFound || len(received) > 0 {
		t.Errorf("%s, and the other server received %q", answer.Status, received)
	}
}
