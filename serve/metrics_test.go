package serve_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/store"
)

// scrapers may get /metrics, and nothing else, if the user is among them.
type scrapers []string

func (s scrapers) Authorize(_ context.Context, a access.Attributes) (access.Decision, error) {
	for _, user := range s {
		if a.User.Username == user && a.Verb == "get" && a.Path == "/metrics" {
			return access.Decision{Allowed: true}, nil
		}
	}
	return access.Decision{}, nil
}

// TestMetrics: metrics are for whom the authorizer lets, and for no one else; they are Larder's own where it forwards.
func TestMetrics(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "of the API server")
	}))
	defer api.Close()
	forward, err := serve.Forward(&rest.Config{Host: api.URL}, nobody{})
	must(t, err)
	st, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.Options{})
	must(t, err)
	defer func() { must(t, st.Close()) }()
	prometheus, err := access.NewStaticToken(strings.Repeat("p", 40), "prometheus")
	must(t, err)
	stranger, err := access.NewStaticToken(strings.Repeat("s", 40), "stranger")
	must(t, err)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "larder_objects 1\n") })
	for name, tt := range map[string]struct {
		options serve.Options
		method  string
		path    string
		token   string
		code    int
		want    string
	}{
		"who may":         {serve.Options{Metrics: metrics}, "GET", "/metrics", "p", 200, "larder_objects 1\n"},
		"who may not":     {serve.Options{Metrics: metrics}, "GET", "/metrics", "s", 403, ""},
		"nobody":          {serve.Options{Metrics: metrics}, "GET", "/metrics", "", 401, ""},
		"forwarding":      {serve.Options{Metrics: metrics, Forward: forward}, "GET", "/metrics", "p", 200, "larder_objects 1\n"},
		"forwarding, not": {serve.Options{Metrics: metrics, Forward: forward}, "GET", "/metrics", "s", 403, ""},
		"a write":         {serve.Options{Metrics: metrics}, "POST", "/metrics", "p", 404, ""},
		"another path":    {serve.Options{Metrics: metrics}, "GET", "/metrics/cadvisor", "p", 403, ""},
		"without metrics": {serve.Options{}, "GET", "/metrics", "p", 404, ""},
	} {
		tt.options.Authorizer = scrapers{"prometheus"}
		h, err := serve.New(serve.Mirror(st), tt.options)
		must(t, err)
		server := httptest.NewServer(access.NewHandler(h,
			access.HandlerOptions{Authenticator: access.Union(prometheus, stranger)}))
		r, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, nil)
		must(t, err)
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+strings.Repeat(tt.token, 40))
		}
		answer, err := server.Client().Do(r)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode != tt.code || tt.want != "" && string(body) != tt.want {
			t.Errorf("%s: %s, %q", name, answer.Status, body)
		}
		must(t, h.Close())
		server.Close()
	}
}
