package informer

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// TestOf finds the informer in what factories return, and the reason where there is none.
func TestOf(t *testing.T) {
	i, err := New(newServer(), &corev1.Pod{}, Options{InMemory: true, Identity: podsIdentity})
	if err != nil {
		t.Fatal(err)
	}
	for _, inf := range []cache.SharedIndexInformer{i, cache.NewTypedSharedIndexInformer[*corev1.Pod](i)} {
		if got, err := Of(inf); got != i || err != nil {
			t.Errorf("%T: %v, %v", inf, got, err)
		}
	}
	why := errors.New("the reason")
	r := Refused(&corev1.Pod{}, why)
	for _, inf := range []cache.SharedIndexInformer{r, cache.NewTypedSharedIndexInformer[*corev1.Pod](r)} {
		if got, err := Of(inf); got != nil || !errors.Is(err, why) {
			t.Errorf("%T: %v, %v", inf, got, err)
		}
	}
	for _, inf := range []cache.SharedIndexInformer{nil, cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{})} {
		if got, err := Of(inf); got != nil || !errors.Is(err, ErrForeign) {
			t.Errorf("%T: %v, %v", inf, got, err)
		}
	}
}
