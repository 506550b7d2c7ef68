package load

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PerNamespace is how many objects a namespace holds.
const PerNamespace = 1000

// RevisionAnnotation says how often an object has been changed, and MadeAnnotation when (nanoseconds since 1970), where
// the change was made by the embedded server.
const (
	RevisionAnnotation = "bench.larder.dev/revision"
	MadeAnnotation     = "bench.larder.dev/made"
)

// Kind is one resource of the benchmark.
type Kind struct {
	// Name is the plural; results use it.
	Name string
	GVR  schema.GroupVersionResource
	// Example is an empty object; nil if there is no Go type for it.
	Example runtime.Object
	// New returns object i after revision changes.
	New func(i, revision int) runtime.Object
}

var widgetVersion = schema.GroupVersion{Group: "bench.larder.dev", Version: "v1"}

// Kinds has all kinds, in the order of the reports.
var Kinds = []Kind{
	{"pods", corev1.SchemeGroupVersion.WithResource("pods"), &corev1.Pod{}, newPod},
	{"configmaps", corev1.SchemeGroupVersion.WithResource("configmaps"), &corev1.ConfigMap{}, newConfigMap},
	{"widgets", widgetVersion.WithResource("widgets"), nil, newWidget},
}

// KindOf returns the kind with that name, which must be in Kinds.
func KindOf(name string) Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	panic("there is no kind " + name)
}

// Key returns the key of object i.
func (k Kind) Key(i int) string { return Namespace(i) + "/" + k.ObjectName(i) }

// ObjectName returns the name of object i.
func (k Kind) ObjectName(i int) string { return objectName(k.Name, i) }

func objectName(kind string, i int) string { return fmt.Sprintf("%s-%07d", kind, i) }

// Made reports whether the benchmark has made the object with that name. A cluster has others: the API server itself
// makes a ConfigMap in kube-system.
func (k Kind) Made(name string) bool { return strings.HasPrefix(name, k.Name+"-") }

// Namespace returns the namespace of object i.
func Namespace(i int) string { return fmt.Sprintf("bench-%04d", i/PerNamespace) }

// Revision returns how often an object has been changed, and when; zero if the object does not say.
func Revision(obj any) (revision int, made int64) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return 0, 0
	}
	annotations := m.GetAnnotations()
	revision, _ = strconv.Atoi(annotations[RevisionAnnotation])
	made, _ = strconv.ParseInt(annotations[MadeAnnotation], 10, 64)
	return revision, made
}

// configMapBytes is the size of a body.
const configMapBytes = 100 << 10

// newConfigMap fills the body with random bytes in base64: compression takes a quarter off it, not more.
func newConfigMap(i, revision int) runtime.Object {
	var seed [32]byte
	copy(seed[:], strconv.Itoa(i))
	raw := make([]byte, base64.StdEncoding.DecodedLen(configMapBytes))
	_, _ = rand.NewChaCha8(seed).Read(raw) // it never fails
	cm := &corev1.ConfigMap{Data: map[string]string{"body": base64.StdEncoding.EncodeToString(raw)}}
	cm.Namespace, cm.Name = Namespace(i), objectName("configmaps", i)
	cm.Annotations = map[string]string{RevisionAnnotation: strconv.Itoa(revision)}
	return cm
}

// newWidget returns a custom resource of about 400 bytes of JSON.
func newWidget(i, revision int) runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgetVersion.String(), "kind": "Widget",
		"metadata": map[string]any{
			"name": objectName("widgets", i), "namespace": Namespace(i),
			"labels":      map[string]any{"tier": strconv.Itoa(i % 5)},
			"annotations": map[string]any{RevisionAnnotation: strconv.Itoa(revision)},
		},
		"spec":   map[string]any{"size": int64(i % 100), "color": "blue", "ratio": 0.5},
		"status": map[string]any{"ready": true},
	}}
}
