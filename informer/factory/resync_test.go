package factory

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
)

// resyncs runs a factory for 95 seconds, and returns the number of resync updates for each resource, which has one
// object.
func resyncs(t *testing.T, f subject, gvrs ...schema.GroupVersionResource) (counts []int) {
	t.Helper()
	stopCh := make(chan struct{})
	var handlers []*recorder
	for _, gvr := range gvrs {
		h := &recorder{}
		_, err := f.informer(gvr).AddEventHandler(h)
		must(t, err)
		handlers = append(handlers, h)
	}
	f.Start(stopCh)
	time.Sleep(95 * time.Second)
	synctest.Wait()
	close(stopCh)
	f.Shutdown()
	for _, h := range handlers {
		counts = append(counts, len(h.take())-1)
	}
	return counts
}

// TestCustomResync checks that Options.CustomResync has client-go's effect.
func TestCustomResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeClients(t, pod("a", "1", "x"))
		_, err := c.typed.CoreV1().ConfigMaps("a").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metaOf("a", "1", "x")},
			metav1.CreateOptions{})
		must(t, err)
		o := inMemory()
		o.CustomResync = map[metav1.Object]time.Duration{&corev1.ConfigMap{}: 10 * time.Second}
		f, err := NewSharedInformerFactory(c.typed, 30*time.Second, o, &corev1.Pod{}, &corev1.ConfigMap{})
		must(t, err)
		stock := informers.NewSharedInformerFactoryWithOptions(c.typed, 30*time.Second, o.stock()...)
		for name, f := range map[string]informers.SharedInformerFactory{"ours": f, "client-go's": stock} {
			if got := resyncs(t, typedSubject(f), pods, configMaps); got[0] != 3 || got[1] != 9 {
				t.Errorf("%s: %v resyncs", name, got)
			}
		}
	})
}

func TestUntypedResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeClients(t, pod("a", "1", "x"))
		for name, f := range map[string]dynamicinformer.DynamicSharedInformerFactory{
			"dynamic":               NewDynamicSharedInformerFactory(c.dynamic, 30*time.Second, inMemory()),
			"dynamic, client-go's":  dynamicinformer.NewDynamicSharedInformerFactory(c.dynamic, 30*time.Second),
			"metadata":              NewMetadataSharedInformerFactory(c.metadata, 30*time.Second, inMemory()),
			"metadata, client-go's": metadatainformer.NewSharedInformerFactory(c.metadata, 30*time.Second),
		} {
			if got := resyncs(t, untypedSubject(f), pods); got[0] != 3 {
				t.Errorf("%s: %v resyncs", name, got)
			}
		}
	})
}
