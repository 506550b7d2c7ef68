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

// PerNamespace is the number of objects in a namespace.
const PerNamespace = 1000

// RevisionAnnotation has the number of changes of an object. MadeAnnotation has the time of the last change
// (nanoseconds since 1970); only the embedded server sets it.
const (
	RevisionAnnotation = "bench.larder.dev/revision"
	MadeAnnotation     = "bench.larder.dev/made"
)

// Kind is one resource of the benchmark.
type Kind struct {
	// Name is the plural resource name, such as pods. Results also use this name.
	Name string
	GVR  schema.GroupVersionResource
	// Example is an empty object; nil for a kind without a Go type.
	Example runtime.Object
	// New returns the object with number i after that many revisions.
	New func(i, revision int) runtime.Object
}

var widgetVersion = schema.GroupVersion{Group: "bench.larder.dev", Version: "v1"}

// Kinds has all kinds, in the order of the reports.
var Kinds = []Kind{
	{"pods", corev1.SchemeGroupVersion.WithResource("pods"), &corev1.Pod{}, newPod},
	{"configmaps", corev1.SchemeGroupVersion.WithResource("configmaps"), &corev1.ConfigMap{}, newConfigMap},
	{"widgets", widgetVersion.WithResource("widgets"), nil, newWidget},
}

// KindOf returns the kind of this name, which must be in Kinds.
func KindOf(name string) Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	panic("there is no kind " + name)
}

// Key returns the key (namespace/name) of the object with number i.
func (k Kind) Key(i int) string { return Namespace(i) + "/" + k.ObjectName(i) }

// ObjectName returns the name of the object with number i.
func (k Kind) ObjectName(i int) string { return objectName(k.Name, i) }

func objectName(kind string, i int) string { return fmt.Sprintf("%s-%07d", kind, i) }

// Made reports whether the benchmark created the object with this name. There are other objects: the API server creates
// a ConfigMap in kube-system.
func (k Kind) Made(name string) bool { return strings.HasPrefix(name, k.Name+"-") }

// Namespace returns the namespace of the object with number i.
func Namespace(i int) string { return fmt.Sprintf("bench-%04d", i/PerNamespace) }

// Revision returns the number of changes of an object and the time of the last change, from the object's annotations.
// The value of a missing annotation is zero.
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

const configMapBytes = 100 << 10

// newConfigMap returns a ConfigMap with random bytes in base64, which compress by a quarter.
func newConfigMap(i, revision int) runtime.Object {
	var seed [32]byte
	copy(seed[:], strconv.Itoa(i))
	raw := make([]byte, base64.StdEncoding.DecodedLen(configMapBytes))
	_, _ = rand.NewChaCha8(seed).Read(raw) // never fails
	cm := &corev1.ConfigMap{Data: map[string]string{"body": base64.StdEncoding.EncodeToString(raw)}}
	cm.Namespace, cm.Name = Namespace(i), objectName("configmaps", i)
	cm.Annotations = map[string]string{RevisionAnnotation: strconv.Itoa(revision)}
	return cm
}

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
