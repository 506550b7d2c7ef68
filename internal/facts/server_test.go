package facts_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is a fake API server with discovery, schemas and service-account keys.
type api struct {
	mu       sync.Mutex
	version  string            // mu guards version and the fields below
	hashes   map[string]string // hashes of schemas by path; the index omits empty hashes
	keys     string
	down     bool
	refuses  map[string]int
	requests map[string]int
	groups   []metav1.APIGroup
}

func newAPI() *api {
	group := func(name string, versions ...string) metav1.APIGroup {
		g := metav1.APIGroup{Name: name}
		for _, v := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
		}
		g.PreferredVersion = g.Versions[0]
		return g
	}
	return &api{version: "v1.36.3", keys: "first", refuses: map[string]int{}, requests: map[string]int{},
		hashes: map[string]string{"api/v1": "A1", "apis/apps/v1": "B1", "apis/batch/v1": "C1", "apis": "D1"},
		groups: []metav1.APIGroup{group("apps", "v1"), group("batch", "v1", "v1beta1")}}
}

func (a *api) client(t *testing.T) rest.Interface {
	t.Helper()
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	d, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: s.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return d.RESTClient()
}

func (a *api) change(fn func(a *api)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn(a)
}

func (a *api) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	paths := slices.Sorted(maps.Keys(a.requests))
	clear(a.requests)
	return paths
}

func document(path, hash string) string {
	return fmt.Sprintf(`{"openapi":"3.0.0","path":%q,"hash":%q,"schemas":%q}`, path, hash, strings.Repeat("schema", 100))
}

// ServeHTTP answers like API servers before Kubernetes 1.26, which have no aggregated discovery.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/")
	a.requests[path]++
	if a.down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if code := a.refuses[path]; code != 0 {
		w.WriteHeader(code)
		return
	}
	list := func(gv string, names ...string) any {
		l := metav1.APIResourceList{GroupVersion: gv}
		for _, name := range names {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: name, Kind: strings.ToUpper(name),
				SingularName: strings.TrimSuffix(name, "s"), Namespaced: true, Verbs: []string{"list"}})
		}
		return l
	}
	var answer any
	schema, isSchema := strings.CutPrefix(path, "openapi/v3/")
	switch {
	case path == "version":
		answer = map[string]string{"gitVersion": a.version, "major": "1", "goVersion": "go"}
	case path == "api":
		answer = metav1.APIVersions{Versions: []string{"v1"}}
	case path == "apis":
		answer = metav1.APIGroupList{Groups: a.groups}
	case path == "api/v1":
		answer = list("v1", "pods", "pods/status", "nodes")
	case path == "apis/apps/v1":
		answer = list("apps/v1", "deployments")
	case path == "apis/batch/v1", path == "apis/batch/v1beta1":
		answer = list(strings.TrimPrefix(path, "apis/"), "jobs")
	case path == ".well-known/openid-configuration":
		answer = map[string]any{"issuer": "https://cluster", "jwks_uri": "https://elsewhere"}
	case path == "openid/v1/jwks":
		if !strings.HasPrefix(r.Header.Get("Accept"), "application/jwk-set+json") {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		answer = map[string]any{"keys": []any{map[string]string{"kid": a.keys}}}
	case path == "openapi/v3":
		paths := map[string]any{}
		for at, hash := range a.hashes {
			url := "/openapi/v3/" + at
			if hash != "" {
				url += "?hash=" + hash
			}
			paths[at] = map[string]string{"serverRelativeURL": url}
		}
		answer = map[string]any{"paths": paths}
	case isSchema && r.URL.Query().Get("hash") == a.hashes[schema]:
		answer = json.RawMessage(document(schema, a.hashes[schema]))
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
