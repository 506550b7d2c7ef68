package serve_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// mirrorOne stores a collection of a resource that contains one object with the name "one".
func mirrorOne(t *testing.T, st *store.Store, gvr schema.GroupVersionResource, info entry.ResourceInfo) {
	t.Helper()
	id := entry.Identity{GroupVersionResource: gvr, Representation: entry.Unstructured}
	c, err := st.Collection(t.Context(), id, store.CollectionOptions{Codec: codec.Unstructured(), Resource: info,
		History: 1 << 20})
	must(t, err)
	u := one(gvr.GroupVersion().WithKind(info.Kind))
	if info.Namespaced {
		u.SetNamespace("a")
	}
	mirrorObjects(t, c, u)
}

func one(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	u.SetName("one")
	u.SetUID("u")
	u.SetResourceVersion("7")
	return u
}

func mirrorObjects(t *testing.T, c *store.Collection, objects ...runtime.Object) {
	t.Helper()
	list, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	must(t, err)
	_, err = list.Page(t.Context(), objects)
	must(t, err)
	_, err = list.Commit(t.Context(), entry.Batch{ResourceVersion: "9"})
	must(t, err)
}

// handlerOf returns a Handler that serves a new store, which the function fill has filled.
func handlerOf(t *testing.T, fill func(*store.Store)) http.Handler {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	fill(st)
	must(t, st.Flush(t.Context()))
	h, err := serve.New(serve.Store(st), serve.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	return h
}

func getFrom(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestItemsOfBuiltInKinds checks that, as in kube-apiserver, list items have apiVersion and kind for custom resources,
// but not for built-in kinds, even if client-go does not know the kind.
func TestItemsOfBuiltInKinds(t *testing.T) {
	type expected struct {
		kind string
		has  bool
	}
	of := func(group, version, resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	}
	kinds := map[schema.GroupVersionResource]expected{
		of("", "v1", "nodes"):                                         {"Node", false},
		of("apps", "v9", "novelties"):                                 {"Novelty", false},
		of("apiextensions.k8s.io", "v1", "customresourcedefinitions"): {"CustomResourceDefinition", false},
		of("apiregistration.k8s.io", "v1", "apiservices"):             {"APIService", false},
		of("example.com", "v1", "plains"):                             {"Plain", true},
		of("gateway.networking.k8s.io", "v1", "gatewayclasses"):       {"GatewayClass", true},
	}
	h := handlerOf(t, func(st *store.Store) {
		for gvr, k := range kinds {
			mirrorOne(t, st, gvr, entry.ResourceInfo{Kind: k.kind})
		}
	})
	for gvr, k := range kinds {
		t.Run(gvr.Resource, func(t *testing.T) {
			t.Parallel() // the subtests are parallel, since a watch lasts a second
			path := "/apis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
			if gvr.Group == "" {
				path = "/api/v1/" + gvr.Resource
			}
			has := func(object map[string]any) bool {
				return object["kind"] == k.kind && object["apiVersion"] == gvr.GroupVersion().String()
			}
			var list struct {
				Metadata map[string]any
				Items    []map[string]any
			}
			must(t, json.Unmarshal(getFrom(h, path, "").Body.Bytes(), &list))
			if len(list.Items) != 1 || has(list.Items[0]) != k.has || !k.has && list.Items[0]["kind"] != nil {
				t.Errorf("%s: the items are %v", path, list.Items)
			}
			if _, ok := list.Metadata["continue"]; ok != k.has { // as in kube-apiserver
				t.Errorf("%s: the list's metadata is %v", path, list.Metadata)
			}
			tables := getFrom(h, path+"?labelSelector=a%3Db", "application/json;as=Table;v=v1;g=meta.k8s.io").Body.String()
			if strings.Contains(tables, `"rows":null`) != (gvr.Resource == "customresourcedefinitions") {
				t.Errorf("%s: an empty Table is %s", path, tables)
			}
			yaml := getFrom(h, path, "application/yaml").Body.String()
			if strings.Contains(yaml, "kind: "+k.kind+"\n") != k.has {
				t.Errorf("%s: in YAML the list is\n%s", path, yaml)
			}
			var one map[string]any
			must(t, json.Unmarshal(getFrom(h, path+"/one", "").Body.Bytes(), &one))
			if !has(one) {
				t.Errorf("%s/one: %v", path, one)
			}
			var event struct {
				Type   string
				Object map[string]any
			}
			w := getFrom(h, path+"?watch=1&timeoutSeconds=1", "")
			if err := json.Unmarshal(w.Body.Bytes(), &event); err != nil || !has(event.Object) {
				t.Errorf("%s: the event is %s (%v)", path, w.Body, err)
			}
		})
	}
}

// TestExtensionKinds checks that CustomResourceDefinitions and APIServices are served as built-in kinds, although
// client-go lacks their Go types.
func TestExtensionKinds(t *testing.T) {
	h := handlerOf(t, func(st *store.Store) {
		mirrorOne(t, st, schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1",
			Resource: "apiservices"}, entry.ResourceInfo{Kind: "APIService"})
	})
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	for _, tt := range []struct {
		path, accept string
		status       int
		want         string
	}{
		{path, "application/vnd.kubernetes.protobuf", 406, "only the following media types are accepted"},
		{path, "application/vnd.kubernetes.protobuf,application/json", 200, `"kind":"APIServiceList"`},
		{path, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", 200, "k8s\x00"},
		{path, "text/html", 406, "406: Not Acceptable"},
		{path + "/one/status", "", 200, `"kind":"APIService"`},
		{path + "?fieldSelector=metadata.namespace%3Da", "", 200, `"items":[]`},
		{path + "?fieldSelector=spec.x%3Da", "", 400, "is not a known field selector"},
	} {
		w := getFrom(h, tt.path, tt.accept)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s, Accept %q: %d, want %d with %q\n%s", tt.path, tt.accept, w.Code, tt.status, tt.want, w.Body)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, nil))
	if w.Code != http.StatusForbidden && w.Code != http.StatusMethodNotAllowed {
		t.Errorf("HEAD is %d", w.Code)
	}
}

// TestListKind checks that lists of a custom resource have the listKind of its CustomResourceDefinition, since
// generated clients accept no other.
func TestListKind(t *testing.T) {
	h := handlerOf(t, func(st *store.Store) {
		mirrorOne(t, st, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"},
			entry.ResourceInfo{Kind: "Gadget", ListKind: "GadgetSet"})
		mirrorOne(t, st, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "plains"},
			entry.ResourceInfo{Kind: "Plain"})
	})
	for _, tt := range []struct{ path, accept, want string }{
		{"gadgets", "application/json", `"kind":"GadgetSet"`},
		{"gadgets", "application/yaml", "kind: GadgetSet"},
		{"gadgets", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", `"kind":"PartialObjectMetadataList"`},
		{"gadgets", "application/json;as=Table;g=meta.k8s.io;v=v1", `"kind":"Table"`},
		{"gadgets/one", "application/json", `"kind":"Gadget"`},
		{"plains", "application/json", `"kind":"PlainList"`},
	} {
		w := getFrom(h, "/apis/example.com/v1/"+tt.path, tt.accept)
		if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, tt.want) {
			t.Errorf("%s as %s: %d, want %s: %s", tt.path, tt.accept, w.Code, tt.want, body)
		}
	}
}
