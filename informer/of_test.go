package informer_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
)

// TestOf checks that the error of informer.Of says why a factory's informer has no Informer inside.
func TestOf(t *testing.T) {
	i, err := informer.New(newServer(), &corev1.Pod{}, informer.Options{InMemory: true, Identity: podsIdentity})
	if err != nil {
		t.Fatal(err)
	}
	for _, inf := range []cache.SharedIndexInformer{i, cache.NewTypedSharedIndexInformer[*corev1.Pod](i)} {
		if got, err := informer.Of(inf); got != i || err != nil {
			t.Errorf("%T: %v, %v", inf, got, err)
		}
	}
	why := errors.New("the reason")
	r := informer.Refused(&corev1.Pod{}, why)
	for _, inf := range []cache.SharedIndexInformer{r, cache.NewTypedSharedIndexInformer[*corev1.Pod](r)} {
		if got, err := informer.Of(inf); got != nil || !errors.Is(err, why) {
			t.Errorf("%T: %v, %v", inf, got, err)
		}
	}
	for _, inf := range []cache.SharedIndexInformer{nil,
		cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{})} {
		if got, err := informer.Of(inf); got != nil || !errors.Is(err, informer.ErrForeign) {
			t.Errorf("%T: %v, %v", inf, got, err)
		}
	}
}
