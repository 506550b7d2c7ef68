package store_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// BenchmarkApplyHot applies updates of single objects, to 10,000 objects in turn, and commits at the end.
func BenchmarkApplyHot(b *testing.B) {
	for name, o := range map[string]store.Options{
		"Late":     {},
		"LateLong": {CommitInterval: 10 * time.Second, CommitBytes: 48 << 20},
		"AtOnce":   store.AtOnce(store.Options{}),
	} {
		b.Run(name, func(b *testing.B) {
			c := benchCollectionWith(b, o)
			benchList(b, c, benchTotal+1)
			pods := benchPods(b, 0, benchTotal, benchTotal+2)
			written, rv := store.StoreOf(c).Written(), 2*benchTotal
			b.ReportAllocs()
			for b.Loop() {
				old := pods[rv%benchTotal].(*corev1.Pod)
				rv++
				pod := *old // objects from the store must not be modified
				pod.ResourceVersion = strconv.Itoa(rv)
				pods[(rv-1)%benchTotal] = &pod
				batch := entry.Batch{Ops: []entry.Op{{Object: &pod, Event: cache.Updated}}, ResourceVersion: pod.ResourceVersion}
				if _, err := c.Apply(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
			if err := store.StoreOf(c).Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(store.StoreOf(c).Written()-written)/float64(b.N), "written-B/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
		})
	}
}
