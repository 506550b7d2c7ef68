package load

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// WithManagedFields adds to a pod what a real server would: an entry of its one manager that names every field. Other
// kinds are left as they are.
func WithManagedFields(obj runtime.Object) runtime.Object {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			Time: &podStart, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(podFields()),
		}}
	}
	return obj
}

// podFields is the same for every pod, as all have the same shape.
var podFields = sync.OnceValue(func() string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(newPod(0, 0))
	if err != nil {
		panic(err) // a pod of our own making
	}
	delete(content, "status")
	fields, err := fieldpath.SetFromValue(value.NewValueInterface(content)).ToJSON()
	if err != nil {
		panic(err)
	}
	return string(fields)
})
