package serve_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestMetadataThatDoNotFit checks that a list of metadata succeeds although the metadata of one object do not decode
// into ObjectMeta (kubernetes#91582, issue 38).
func TestMetadataThatDoNotFit(t *testing.T) {
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	h := handlerOf(t, func(st *store.Store) {
		c, err := st.Collection(t.Context(), entry.Identity{
			GroupVersionResource: gvr, Representation: entry.Unstructured,
		}, store.CollectionOptions{
			Codec: codec.Unstructured(), Resource: entry.ResourceInfo{Kind: "Widget"}, History: 1 << 20,
		})
		must(t, err)
		odd, good := one(gvr.GroupVersion().WithKind("Widget")), one(gvr.GroupVersion().WithKind("Widget"))
		good.SetName("two")
		must(t, unstructured.SetNestedField(odd.Object, "", "metadata", "creationTimestamp"))
		must(t, unstructured.SetNestedField(odd.Object, "x", "metadata", "generation"))
		odd.SetLabels(map[string]string{"kept": "yes"})
		mirrorObjects(t, c, odd, good)
	})
	const path = "/apis/example.com/v1/widgets"
	for _, accept := range []string{
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
		"application/json;as=Table;v=v1;g=meta.k8s.io",
		"application/json",
	} {
		w := getFrom(h, path, accept)
		for _, part := range []string{"one", "two", "kept"} {
			if w.Code != 200 || !strings.Contains(w.Body.String(), part) {
				t.Errorf("%s: %d without %q\n%s", accept, w.Code, part, w.Body)
			}
		}
	}
	w := getFrom(h, path+"/one", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"uid":"u"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
