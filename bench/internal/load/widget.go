package load

import (
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var widgets = schema.GroupVersionResource{Group: "bench.larder.dev", Version: "v1", Resource: "widgets"}

// newWidget is a custom resource of about 400 bytes of JSON.
func newWidget(i, revision int) runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgets.GroupVersion().String(), "kind": "Widget",
		"metadata": map[string]any{
			"name": objectName("widgets", i), "namespace": Namespace(i),
			"labels":      map[string]any{"tier": strconv.Itoa(i % 5)},
			"annotations": map[string]any{RevisionAnnotation: strconv.Itoa(revision)},
		},
		"spec":   map[string]any{"size": int64(i % 100), "color": "blue", "ratio": 0.5},
		"status": map[string]any{"ready": true},
	}}
}
