package facts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/facts"
)

// aggregated is a fake API server. With plain set, it does not offer aggregated discovery.
type aggregated struct {
	mu    sync.Mutex
	plain bool
	// stale holds the group-versions that the server cannot describe, as "apps/v1". resources holds the resources that it
	// serves, as "apps/v1/deployments"; in the core group as "v1/pods".
	stale, resources []string
	answers          []string
}

func (a *aggregated) client(t *testing.T) rest.Interface {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client.RESTClient()
}

func (a *aggregated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	status, body := http.StatusOK, any(nil)
	if a.plain || !slices.Contains([]string{"/api", "/apis"}, r.URL.Path) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			body = metav1.APIVersions{Versions: []string{"v1"}}
		case "/apis":
			body = metav1.APIGroupList{}
		default:
			body = metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods"}}}
		}
	} else {
		list := a.list(r.URL.Path == "/api")
		text, _ := json.Marshal(list)
		etag := fmt.Sprintf("%q", fmt.Sprint(len(text), list.Items))
		w.Header().Set("Content-Type", discovery.AcceptV2)
		w.Header().Set("ETag", etag)
		if body = list; r.Header.Get("If-None-Match") == etag {
			status, body = http.StatusNotModified, nil
		}
	}
	a.answers = append(a.answers, fmt.Sprint(status, " ", r.URL.Path))
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

func (a *aggregated) list(core bool) (list apidiscoveryv2.APIGroupDiscoveryList) {
	for _, name := range a.resources {
		parts := strings.Split(name, "/")
		if len(parts) == 2 {
			parts = append([]string{""}, parts...)
		}
		if (parts[0] == "") != core {
			continue
		}
		v := apidiscoveryv2.APIVersionDiscovery{Version: parts[1], Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
			Resources: []apidiscoveryv2.APIResourceDiscovery{{Resource: parts[2], Scope: apidiscoveryv2.ScopeNamespace,
				ResponseKind: &metav1.GroupVersionKind{Kind: strings.ToUpper(parts[2])}}}}
		if slices.Contains(a.stale, parts[0]+"/"+parts[1]) {
			v.Freshness, v.Resources = apidiscoveryv2.DiscoveryFreshnessStale, nil
		}
		list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: parts[0]},
			Versions: []apidiscoveryv2.APIVersionDiscovery{v}})
	}
	return list
}

func (a *aggregated) sets(t *testing.T, change func(), want ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.answers, want) {
		t.Errorf("answers %q, want %q", a.answers, want)
	}
	a.answers = nil
	change()
}

func TestFetchDiscovery(t *testing.T) {
	a := &aggregated{resources: []string{"v1/pods", "apps/v1/deployments", "metrics.k8s.io/v1beta1/nodes"}}
	client := a.client(t)
	fetch := func(known *facts.Discovery, missing string) *facts.Discovery {
		t.Helper()
		d, err := facts.FetchDiscovery(t.Context(), client, known)
		failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err)
		var names []string
		for gv := range failed {
			names = append(names, gv.String())
		}
		if strings.Join(names, " ") != missing || err != nil && len(failed) == 0 {
			t.Errorf("%v, want %q to be missing", err, missing)
		}
		return &d
	}
	has := func(d *facts.Discovery, group, version, resource string) {
		t.Helper()
		gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
		if r, ok := d.Resource(gvr); !ok || r.Kind != strings.ToUpper(resource) {
			t.Errorf("%s: %+v, %t", gvr, r, ok)
		}
	}
	first := fetch(nil, "")
	has(first, "", "v1", "pods")
	again := fetch(first, "")
	has(again, "", "v1", "pods")
	has(again, "metrics.k8s.io", "v1beta1", "nodes")
	if !again.Equal(*first) {
		t.Error("what has not changed is not the same")
	}
	a.sets(t, func() { a.stale = []string{"metrics.k8s.io/v1beta1"} }, "200 /api", "200 /apis", "304 /api", "304 /apis")
	away := fetch(again, "metrics.k8s.io/v1beta1")
	has(away, "metrics.k8s.io", "v1beta1", "nodes")
	has(away, "apps", "v1", "deployments")
	a.sets(t, func() {}, "304 /api", "200 /apis")
	// The server answers 304 for both documents, so the resources come from the known discovery.
	still := fetch(away, "metrics.k8s.io/v1beta1")
	has(still, "metrics.k8s.io", "v1beta1", "nodes")
	a.sets(t, func() { a.stale, a.resources = nil, append(a.resources, "example.com/v1/widgets") }, "304 /api", "304 /apis")
	back := fetch(still, "")
	has(back, "example.com", "v1", "widgets")
	has(back, "metrics.k8s.io", "v1beta1", "nodes")
	a.sets(t, func() { a.plain = true }, "304 /api", "200 /apis")
	if plain := fetch(back, ""); len(plain.Groups) != 1 || plain.Groups[0].VersionedResources["v1"][0].Name != "pods" {
		t.Errorf("of a server without aggregated discovery: %+v", plain.Groups)
	}
}
