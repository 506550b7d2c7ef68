package serve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// TestNewerServer checks that responses include fields that client-go's Go types lack, if the API server is newer.
// Objects with such fields are sent as JSON even to clients that prefer protobuf (issue 37).
func TestNewerServer(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	pods := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		Representation: entry.Unstructured}
	c, err := st.Collection(t.Context(), pods, store.CollectionOptions{Codec: codec.Unstructured(),
		Resource: entry.ResourceInfo{Kind: "Pod", Singular: "pod", Namespaced: true},
		History:  1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": "default", "name": "p", "uid": "u", "resourceVersion": "7"},
		"spec":     map[string]any{"newField": "x", "nodeName": "n"}}}
	list, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Attributes: entry.Attributes{Wire: "JSON 1.38"}})
	if err == nil {
		_, err = list.Page(t.Context(), []runtime.Object{pod})
	}
	if err == nil {
		_, err = list.Commit(t.Context(), entry.Batch{ResourceVersion: "9"})
	}
	if err == nil {
		err = st.Flush(t.Context()) // commit, since the handler reads the file
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := serve.New(serve.Store(st), serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	server := httptest.NewServer(h)
	defer server.Close()
	const one, all = "/api/v1/namespaces/default/pods/p", "/api/v1/pods"
	for _, tt := range []struct{ path, accept, contentType, want string }{
		{one, "", "application/json", `"kind":"Pod"`},
		{one, "application/yaml", "application/yaml", "newField: x"},
		{one, "application/vnd.kubernetes.protobuf,application/json", "application/json", `"newField":"x"`},
		{one, "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "Pod"},
		{all, "application/json", "application/json", `"items":[{"metadata":`},
		{all, "application/json", "application/json", `"newField":"x"`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.accept != "" {
			r.Header.Set("Accept", tt.accept)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		if err != nil || a.Header.Get("Content-Type") != tt.contentType || !strings.Contains(string(body), tt.want) {
			t.Errorf("%s, Accept %q: %s, %s, %v\n%s", tt.path, tt.accept, a.Status, a.Header.Get("Content-Type"), err, body)
		}
	}
}
