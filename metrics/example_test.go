package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

func ExampleNew() {
	registry := prometheus.NewRegistry()
	m := New()
	registry.MustRegister(m)
	inf, err := informer.New(&cache.ListWatch{}, &corev1.Pod{}, informer.Options{
		Observer: m,
		InMemory: true, // or Store, and what else the informer takes
		Identity: store.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer inf.Close()
	families, err := registry.Gather()
	fmt.Println(len(families) > 0, err)
	// Output: true <nil>
}
