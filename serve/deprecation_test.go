package serve_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// TestDeprecated checks that responses have kube-apiserver's Warning if the server's release has deprecated the
// requested version, or if the CustomResourceDefinition says so.
func TestDeprecated(t *testing.T) {
	endpoints := schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}
	flows := schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta3",
		Resource: "flowschemas"}
	relics := schema.GroupVersionResource{Group: "example.com", Version: "v1alpha1", Resource: "relics"}
	const (
		oldEndpoints = `299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"`
		oldFlows     = `299 - "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema is deprecated in v1.29+, ` +
			`unavailable in v1.32+; use flowcontrol.apiserver.k8s.io/v1 FlowSchema"`
		oldRelics = `299 - "use \"new\" relics"`
	)
	for _, tt := range []struct {
		name, version string
		// relic is the deprecation warning in the CustomResourceDefinition.
		relic     string
		endpoints string
		flows     string
		relics    string
	}{
		{"newest", `{"major":"1","minor":"36"}`, `use "new" relics`, oldEndpoints, oldFlows, oldRelics},
		{"just deprecated", `{"major":"1","minor":"33+"}`, "", oldEndpoints, oldFlows, ""},
		{"not yet", `{"major":"1","minor":"32.4-vendor"}`, "", "", oldFlows, ""},
		{"by its name", "v1.29.1", "", "", oldFlows, ""},
		{"none yet", "v1.28.15", "", "", "", ""},
		{"next major", `{"major":"2","minor":"0"}`, "", oldEndpoints, oldFlows, ""},
		{"unknown", "", `use "new" relics`, "", "", oldRelics},
		{"unreadable", `{"major":"","minor":""}`, "", "", "", ""},
		{"hostile", "v1.1", "a\r\nSet-Cookie: b", "", "", ""},
		{"too long", "v1.1", strings.Repeat("x", 2000), "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := handlerOf(t, func(st *store.Store) {
				if tt.version != "" {
					must(t, st.PutDocument(t.Context(), store.DocumentServerVersion, []byte(tt.version)))
				}
				mirrorOne(t, st, endpoints, entry.ResourceInfo{Kind: "Endpoints", Namespaced: true})
				mirrorOne(t, st, flows, entry.ResourceInfo{Kind: "FlowSchema"})
				mirrorOne(t, st, relics, entry.ResourceInfo{Kind: "Relic", Deprecated: tt.relic})
				mirrorOne(t, st, schema.GroupVersionResource{Version: "v1", Resource: "services"},
					entry.ResourceInfo{Kind: "Service", Namespaced: true})
			})
			for path, want := range map[string]string{
				"/api/v1/endpoints":                                      tt.endpoints,
				"/api/v1/endpoints?watch=1&resourceVersion=1":            tt.endpoints,
				"/api/v1/namespaces/a/endpoints/one":                     tt.endpoints,
				"/api/v1/namespaces/a/endpoints/none":                    tt.endpoints,
				"/api/v1/endpoints?fieldSelector=x":                      tt.endpoints,
				"/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas": tt.flows,
				"/apis/example.com/v1alpha1/relics/one":                  tt.relics,
				"/api/v1/services":                                       "",
			} {
				if got := strings.Join(getFrom(h, path, "").Header()["Warning"], ", "); got != want {
					t.Errorf("%s: Warning is %s, want %s", path, got, want)
				}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/apis/example.com/v1alpha1/relics/one", nil))
			if got := strings.Join(w.Header()["Warning"], ", "); got != tt.relics {
				t.Errorf("DELETE of a custom resource: Warning is %s, want %s", got, tt.relics)
			}
			if got := getFrom(h, "/api/v1/endpoints?timeout=x", "").Header()["Warning"]; got != nil {
				t.Errorf("a request with a wrong timeout has the Warning %s", got)
			}
			if got := getFrom(h, "/api/v1/endpoints", "text/html").Header()["Warning"]; got != nil {
				t.Errorf("a 406 of the router has the Warning %s", got)
			}
		})
	}
}

// TestDeprecatedOnlyForServedRequests checks that a rejected request has no Warning, and that a forwarded request has
// only the API server's Warning.
func TestDeprecatedOnlyForServedRequests(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "upstream"`)
	}))
	defer upstream.Close()
	st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
	must(t, err)
	defer func() { must(t, st.Close()) }()
	must(t, st.PutDocument(t.Context(), store.DocumentServerVersion, []byte("v1.36.3")))
	id := entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "endpoints"},
		Namespace: "a", Representation: entry.Unstructured}
	c, err := st.Collection(t.Context(), id, store.CollectionOptions{Codec: codec.Unstructured(), History: 1 << 20,
		Resource: entry.ResourceInfo{Kind: "Endpoints", Namespaced: true}})
	must(t, err)
	list, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	must(t, err)
	_, err = list.Commit(t.Context(), entry.Batch{ResourceVersion: "9"})
	must(t, err)
	must(t, st.Flush(t.Context()))
	forward, err := serve.Forward(&rest.Config{Host: upstream.URL}, noUsers{})
	must(t, err)
	rights := &switched{}
	h, err := serve.New(serve.Store(st), serve.Options{Authorizer: rights, Forward: forward})
	must(t, err)
	defer func() { must(t, h.Close()) }()
	for _, tt := range []struct {
		no     bool
		path   string
		status int
		want   string
	}{
		{false, "/api/v1/namespaces/a/endpoints", http.StatusOK, "EndpointSlice"},
		{false, "/api/v1/endpoints", http.StatusOK, `299 - "upstream"`},
		{true, "/api/v1/namespaces/a/endpoints", http.StatusForbidden, ""},
	} {
		rights.set(func() { rights.no = tt.no })
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.Header.Set("Authorization", "Bearer t")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header()["Warning"]
		if w.Code != tt.status || (len(got) == 1) != (tt.want != "") || !strings.Contains(strings.Join(got, ""), tt.want) {
			t.Errorf("%s: %d, Warning %q; want %d, %q", tt.path, w.Code, got, tt.status, tt.want)
		}
	}
}
