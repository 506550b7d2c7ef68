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

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/page"
	"github.com/larder-dev/larder/snapshot/remote"
	"github.com/larder-dev/larder/store"
)

// ownerOf is an authorizer that allows only the user "owner" to get a path, and paths below it if it ends in a slash.
type ownerOf string

func (path ownerOf) Authorize(_ context.Context, a access.Attributes) (access.Decision, error) {
	below := strings.HasSuffix(string(path), "/") && strings.HasPrefix(a.Path, string(path))
	may := a.User.Username == "owner" && a.Verb == "get" && (a.Path == string(path) || below)
	return access.Decision{Allowed: may}, nil
}

// ask is a request for a non-resource path. Tokens are one letter, 40 times: o for the owner, s for another user.
type ask struct {
	method, path, token, bytes string
	code                       int
	// want is the expected body of the response; "" for any body.
	want string
}

func wantAnswers(t *testing.T, o serve.Options, asks ...ask) {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.Options{})
	must(t, err)
	defer func() { must(t, st.Close()) }()
	owner, err := access.NewStaticToken(strings.Repeat("o", 40), "owner")
	must(t, err)
	stranger, err := access.NewStaticToken(strings.Repeat("s", 40), "stranger")
	must(t, err)
	h, err := serve.New(serve.Mirror(st, only()), o)
	must(t, err)
	defer func() { must(t, h.Close()) }()
	guarded := http.Handler(h)
	if o.Authorizer != nil {
		guarded = access.NewHandler(h, access.HandlerOptions{Authenticator: access.Union(owner, stranger)})
	}
	if o.Page != nil {
		guarded = page.Files(guarded)
	}
	server := httptest.NewServer(guarded)
	defer server.Close()
	for _, a := range asks {
		r, err := http.NewRequestWithContext(t.Context(), a.method, server.URL+a.path, nil)
		must(t, err)
		if a.token != "" {
			r.Header.Set("Authorization", "Bearer "+strings.Repeat(a.token, 40))
		}
		if a.bytes != "" {
			r.Header.Set("Range", "bytes="+a.bytes)
		}
		answer, err := server.Client().Do(r)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode != a.code || a.want != "" && string(body) != a.want {
			t.Errorf("%s %s as %q: %s, %q, want %d, %q", a.method, a.path, a.token, answer.Status, body, a.code, a.want)
		}
	}
}

// TestMetrics checks that only users with the right to /metrics get the metrics, and that these are Larder's own
// metrics even if requests are forwarded to an API server.
func TestMetrics(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "of the API server")
	}))
	defer api.Close()
	forward, err := serve.Forward(&rest.Config{Host: api.URL}, noUsers{})
	must(t, err)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "larder_objects 1\n")
	})
	may := ownerOf("/metrics")
	for _, forward := range []*serve.Forwarder{nil, forward} {
		wantAnswers(t, serve.Options{Metrics: metrics, Authorizer: may, Forward: forward},
			ask{"GET", "/metrics", "o", "", http.StatusOK, "larder_objects 1\n"},
			ask{"GET", "/metrics", "s", "", http.StatusForbidden, ""},
			ask{"GET", "/metrics", "", "", http.StatusUnauthorized, ""},
			ask{"GET", "/metrics/cadvisor", "o", "", http.StatusForbidden, ""},
		)
	}
	wantAnswers(t, serve.Options{Metrics: metrics, Authorizer: may},
		ask{"POST", "/metrics", "o", "", http.StatusNotFound, ""})
	wantAnswers(t, serve.Options{Authorizer: may}, ask{"GET", "/metrics", "o", "", http.StatusNotFound, ""})
}

// TestSnapshots checks that only authorized users can read a snapshot repository below /snapshot/, by ranges as well,
// and that other files in its directory are not served.
func TestSnapshots(t *testing.T) {
	dir := t.TempDir()
	const name = "20261128T051143Z-3f2a9c1b7d44.larder"
	for file, text := range map[string]string{name: "0123456789", "latest": name + "\n", "sign.key": "secret"} {
		must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	wantAnswers(t, serve.Options{Snapshots: remote.Handler(dir), Authorizer: ownerOf("/snapshot/")},
		ask{"GET", "/snapshot/latest", "o", "", http.StatusOK, name + "\n"},
		ask{"GET", "/snapshot/" + name, "o", "2-4", http.StatusPartialContent, "234"},
		ask{"HEAD", "/snapshot/" + name, "o", "", http.StatusOK, ""},
		ask{"GET", "/snapshot/sign.key", "o", "", http.StatusNotFound, ""},
		ask{"GET", "/snapshot/", "o", "", http.StatusNotFound, ""},
		ask{"GET", "/snapshot/..%2f..%2fetc%2fpasswd", "o", "", http.StatusNotFound, ""},
		ask{"PUT", "/snapshot/latest", "o", "", http.StatusNotFound, ""},
		ask{"GET", "/snapshot/latest", "s", "", http.StatusForbidden, ""},
		ask{"GET", "/snapshot/latest", "", "", http.StatusUnauthorized, ""},
	)
}

// TestPage checks that the page's static files are public, and that its data need the right to their path.
func TestPage(t *testing.T) {
	data := page.New(page.Options{
		Status: func(context.Context) (page.Status, error) { return page.Status{File: "x"}, nil },
	})
	wantAnswers(t, serve.Options{Page: data, Authorizer: ownerOf("/larder/")},
		ask{"GET", "/", "", "", http.StatusOK, ""},
		ask{"GET", "/page/app.js", "", "", http.StatusOK, ""},
		ask{"GET", "/larder/status", "", "", http.StatusUnauthorized, ""},
		ask{"GET", "/larder/status", "x", "", http.StatusUnauthorized, ""},
		ask{"GET", "/larder/status", "s", "", http.StatusForbidden, ""},
		ask{"GET", "/larder/status", "o", "", http.StatusOK, ""},
		ask{"HEAD", "/larder/status", "o", "", http.StatusOK, ""},
		ask{"POST", "/larder/status", "o", "", http.StatusNotFound, ""},
		ask{"GET", "/larder/changes", "o", "", http.StatusNotFound, ""},
		ask{"POST", "/", "", "", http.StatusUnauthorized, ""},
	)
	wantAnswers(t, serve.Options{Page: data}, ask{"GET", "/larder/status", "", "", http.StatusOK, ""})
}
