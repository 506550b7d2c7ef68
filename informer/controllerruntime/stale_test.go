package controllerruntime

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/larder-dev/larder/informer"
)

// TestRefuseAfter: what is too old is refused by every read, also by a list of everything, for which client-go's indexer has no error; and in every form.
func TestRefuseAfter(t *testing.T) {
	nodeKind := corev1.SchemeGroupVersion.WithKind("Node")
	for _, tt := range []struct {
		name  string
		after time.Duration
		want  error
	}{{"too old", time.Nanosecond, informer.ErrStale}, {"not too old", time.Hour, nil}} {
		t.Run(tt.name, func(t *testing.T) {
			srv := startServer(t)
			widget, widgetList := unstructuredOf(widgetKind), unstructuredListOf(widgetKind)
			meta, metaList := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
			meta.SetGroupVersionKind(nodeKind)
			metaList.SetGroupVersionKind(nodeKind)
			objs := []client.Object{&corev1.Pod{}, &corev1.Secret{}, widget, meta}
			life(t, srv, storePath(t), informer.Options{RefuseAfter: tt.after}, cache.Options{}, objs, func(w *world, _ *events) {
				for name, err := range map[string]error{
					"a pod":                 w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "pod-0"}, &corev1.Pod{}),
					"pods of a namespace":   w.List(w.ctx, &corev1.PodList{}, client.InNamespace("a")),
					"all pods":              w.List(w.ctx, &corev1.PodList{}),
					"all secrets":           w.List(w.ctx, &corev1.SecretList{}),
					"all widgets":           w.List(w.ctx, widgetList),
					"metadata of all nodes": w.List(w.ctx, metaList),
				} {
					if !errors.Is(err, tt.want) {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		})
	}
}
