package serve_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

func smallStore(t testing.TB) *store.Store {
	t.Helper()
	st, err := store.Open(t.TempDir()+"/s.db", store.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	c, err := st.Collection(t.Context(), entry.Identity{GroupVersionResource: podsResource,
		Representation: entry.Unstructured}, store.CollectionOptions{Codec: codec.Unstructured(), Residency: store.None,
		Resource: entry.ResourceInfo{Kind: "Pod", Singular: "pod", Namespaced: true}, History: 1 << 20})
	must(t, err)
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	must(t, err)
	_, err = r.Commit(t.Context(), entry.Batch{ResourceVersion: "5"})
	must(t, err)
	var b entry.Batch
	for i, name := range []string{"one", "two"} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
		u.SetNamespace("a")
		u.SetName(name)
		u.SetUID("u")
		u.SetResourceVersion([]string{"6", "7"}[i])
		b.Ops, b.ResourceVersion = append(b.Ops, entry.Op{Object: u}), u.GetResourceVersion()
	}
	_, err = c.Apply(t.Context(), b)
	must(t, err)
	return st
}

// FuzzRequest checks that every response has a valid status, and that every error is a Status or a plain 404.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][4]string{
		{"GET", "/api/v1/pods", "limit=1&labelSelector=a%3Db", "application/json"},
		{"GET", "/api/v1/namespaces/a/pods/one", "resourceVersion=7", "application/vnd.kubernetes.protobuf"},
		{"GET", "/api/v1/namespaces/a/pods", "watch=1&resourceVersion=6&timeoutSeconds=1",
			"application/json;as=Table;v=v1;g=meta.k8s.io"},
		{"GET", "/api/v1/pods", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiIvYS9vbmVcdTAwMDAifQ", "*/*"},
		{"GET", "/apis", "", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
		{"PUT", "/api/v1/namespaces/a/pods/one/status", "fieldSelector=spec.nodeName%21%3Dx", "application/yaml"},
		{"GET", "/api/v1/pods", "resourceVersion=5&resourceVersionMatch=Exact&limit=500",
			"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	h, err := serve.New(serve.Store(smallStore(f)), serve.Options{Narrow: true})
	must(f, err)
	f.Cleanup(func() { must(f, h.Close()) })
	f.Fuzz(func(t *testing.T, method, path, query, accept string) {
		r := (&http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{
			"Accept": {accept}}}).WithContext(t.Context())
		if q := r.URL.Query(); q.Has("watch") || q.Has("timeoutSeconds") || len(q.Get("resourceVersion")) > 1 {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch {
		case w.Code < 200 || w.Code > 599:
			t.Fatalf("status %d", w.Code)
		case w.Code >= 400 && w.Header().Get("Content-Type") == "application/json":
			var status struct{ Kind, Status string }
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Kind != "Status" {
				t.Fatalf("status %d with the body %q: %v", w.Code, w.Body, err)
			}
		}
	})
}
