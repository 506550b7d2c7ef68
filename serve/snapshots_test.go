package serve_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/snapshot/remote"
	"github.com/larder-dev/larder/store"
)

// readers may get what is below /snapshot/, if the user is among them.
type readers []string

func (r readers) Authorize(_ context.Context, a access.Attributes) (access.Decision, error) {
	for _, user := range r {
		if a.User.Username == user && a.Verb == "get" && strings.HasPrefix(a.Path, "/snapshot/") {
			return access.Decision{Allowed: true}, nil
		}
	}
	return access.Decision{}, nil
}

// TestSnapshots: a repository is read below /snapshot/ by whom the authorizer lets, by ranges, and by no one else; no
// other file of its directory is.
func TestSnapshots(t *testing.T) {
	dir := t.TempDir()
	const name = "20261128T051143Z-3f2a9c1b7d44.larder"
	for file, text := range map[string]string{name: "0123456789", "latest": name + "\n", "sign.key": "secret"} {
		must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	st, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.Options{})
	must(t, err)
	defer func() { must(t, st.Close()) }()
	owner, err := access.NewStaticToken(strings.Repeat("o", 40), "owner")
	must(t, err)
	stranger, err := access.NewStaticToken(strings.Repeat("s", 40), "stranger")
	must(t, err)
	h, err := serve.New(serve.Mirror(st), serve.Options{Snapshots: remote.Handler(dir), Authorizer: readers{"owner"}})
	must(t, err)
	defer func() { must(t, h.Close()) }()
	server := httptest.NewServer(access.NewHandler(h, access.HandlerOptions{Authenticator: access.Union(owner, stranger)}))
	defer server.Close()
	for _, tt := range []struct {
		method, path, token, bytes string
		code                       int
		want                       string
	}{
		{http.MethodGet, "/snapshot/latest", "o", "", http.StatusOK, name + "\n"},
		{http.MethodGet, "/snapshot/" + name, "o", "2-4", http.StatusPartialContent, "234"},
		{http.MethodHead, "/snapshot/" + name, "o", "", http.StatusOK, ""},
		{http.MethodGet, "/snapshot/sign.key", "o", "", http.StatusNotFound, ""},
		{http.MethodGet, "/snapshot/", "o", "", http.StatusNotFound, ""},
		{http.MethodGet, "/snapshot/..%2f..%2fetc%2fpasswd", "o", "", http.StatusNotFound, ""},
		{http.MethodPut, "/snapshot/latest", "o", "", http.StatusNotFound, ""},
		{http.MethodGet, "/snapshot/latest", "s", "", http.StatusForbidden, ""},
		{http.MethodGet, "/snapshot/latest", "", "", http.StatusUnauthorized, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, nil)
		must(t, err)
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+strings.Repeat(tt.token, 40))
		}
		if tt.bytes != "" {
			r.Header.Set("Range", "bytes="+tt.bytes)
		}
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode != tt.code || tt.want != "" && string(body) != tt.want {
			t.Errorf("%s %s as %q: %s, %q", tt.method, tt.path, tt.token, answer.Status, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
