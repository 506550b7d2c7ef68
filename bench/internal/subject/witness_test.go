package subject

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/bench/internal/load"
)

// TestWitnessIgnoresForeignObjects checks that the cluster's own objects, which arrive at any time, are not counted.
func TestWitnessIgnoresForeignObjects(t *testing.T) {
	kind := load.KindOf("configmaps")
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "extension-apiserver-authentication",
	}}
	w := NewWitness(kind, 2, kind.Key(1), 3)
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	w.OnAdd(foreign, true)
	w.OnAdd(kind.New(0, 0), true)
	w.OnUpdate(foreign, foreign)
	if closed(w.Added) || w.Updates() != 0 {
		t.Error("a foreign object was counted")
	}
	w.OnAdd(kind.New(1, 0), true)
	if !closed(w.Added) || closed(w.Seen) {
		t.Errorf("after the second addition: added %t, seen %t", closed(w.Added), closed(w.Seen))
	}
	w.OnUpdate(nil, kind.New(1, 3))
	if !closed(w.Seen) || w.Updates() != 1 {
		t.Errorf("after the update: seen %t, %d updates", closed(w.Seen), w.Updates())
	}
}
