package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
)

func ExampleNew() {
	registry := prometheus.NewRegistry()
	m := New()
	registry.MustRegister(m)
	inf, err := informer.New(&cache.ListWatch{}, &corev1.Pod{}, informer.Options{
		Observer: m,
		InMemory: true, // or Store, and other options
		Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
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

type following struct{ *Metrics }

func (f following) InformerMade(i *informer.Informer) {
	f.Metrics.InformerMade(i)
	i.SubscribeSource(func(c informer.SourceChange) {
		klog.InfoS("Data come from elsewhere", "resource", i.Identity().Resource, "from", c.From, "to", c.To, "lastContact",
			c.LastContact, "err", c.Err)
	})
}

// An Observer of all informers of a factory or a manager can subscribe to changes of their Source.
func ExampleMetrics_InformerMade() {
	m := New()
	prometheus.MustRegister(m)
	_ = informer.Options{Observer: following{m}} // and other options
}
