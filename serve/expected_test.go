package serve_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/store"
)

type listsOnly struct{}

func (listsOnly) Authorize(_ context.Context, a access.Attributes) (access.Decision, error) {
	return access.Decision{Allowed: a.Verb == "list" || a.Verb == "watch"}, nil
}

func only(mirrored ...entry.Identity) func() []entry.Identity {
	return func() []entry.Identity { return mirrored }
}

// TestCollectionNotOpenYet checks that a list returns 429 if the store does not have the mirrored resource yet.
func TestCollectionNotOpenYet(t *testing.T) {
	st, err := store.Open(t.TempDir()+"/s.db", store.Options{})
	must(t, err)
	defer func() { must(t, st.Close()) }()
	id := entry.Identity{GroupVersionResource: podsResource, Representation: entry.Unstructured}
	h, err := serve.New(serve.Mirror(st, only(id)), serve.Options{Authorizer: listsOnly{}})
	must(t, err)
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequest("GET", "/api/v1/pods", nil))
	if r.Code != http.StatusTooManyRequests {
		t.Errorf("a list by who may list: %d, want 429: %s", r.Code, r.Body)
	}
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	defer api.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	f, err := serve.Forward(&rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, noUsers{})
	must(t, err)
	h, err = serve.New(serve.Mirror(st, only(id)), serve.Options{Forward: f})
	must(t, err)
	for _, path := range []string{"/api/v1/namespaces/a/pods/p/log", "/api/v1/namespaces/a/pods/p/exec"} {
		q := httptest.NewRequest("GET", path, nil)
		q.Header.Set("Authorization", "Bearer theirs")
		r = httptest.NewRecorder()
		h.ServeHTTP(r, q)
		if r.Code != http.StatusOK {
			t.Errorf("%s is not forwarded: %d: %s", path, r.Code, r.Body)
		}
	}
}
