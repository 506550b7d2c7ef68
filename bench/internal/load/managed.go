package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WithManagedFields adds to a pod what a real server would: an entry of its one manager that names every field. Other kinds are left as
// they are.
func WithManagedFields(obj runtime.Object) runtime.Object {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj
	}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		Time: &podStart, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(podFields),
	}}
	return pod
}

// podFields is the same for every pod, as all have the same shape.
var podFields = fieldsOf(newPod(0, 0))

func fieldsOf(pod *corev1.Pod) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		panic(err) // a pod of our own making
	}
	delete(content, "status")
	var out bytes.Buffer
	writeFields(&out, content)
	return out.String()
}

// writeFields writes a value as FieldsV1: every field with the prefix f:, elements of lists by their name.
func writeFields(out *bytes.Buffer, value any) {
	out.WriteByte('{')
	defer out.WriteByte('}')
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for n, k := range keys {
			writeField(out, n, "f:"+k, v[k])
		}
	case []any:
		for n, element := range v {
			m, ok := element.(map[string]any)
			if !ok {
				return
			}
			name, err := json.Marshal(map[string]any{"name": m["name"]})
			if err != nil {
				panic(err)
			}
			writeField(out, n, fmt.Sprintf("k:%s", name), m)
		}
	}
}

func writeField(out *bytes.Buffer, n int, name string, value any) {
	if n > 0 {
		out.WriteByte(',')
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		panic(err)
	}
	out.Write(quoted)
	out.WriteByte(':')
	writeFields(out, value)
}
