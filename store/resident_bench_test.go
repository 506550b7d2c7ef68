package store_test

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// BenchmarkStoredPods measures the start of an informer with one handler and 100,000 stored pods. With Residency All
// the pods are loaded into memory; with None each pod is decoded once for the handler.
func BenchmarkStoredPods(b *testing.B) {
	const n = 100_000
	path := filepath.Join(b.TempDir(), "larder.db")
	codec, err := codec.For(&corev1.Pod{})
	if err != nil {
		b.Fatal(err)
	}
	open := func(residency store.Residency) (*store.Store, *store.Collection) {
		s, err := store.Open(path, store.Options{})
		if err != nil {
			b.Fatal(err)
		}
		c, err := s.Collection(context.Background(),
			entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
			store.CollectionOptions{Codec: codec, Residency: residency,
				Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}})
		if err != nil {
			b.Fatal(err)
		}
		return s, c
	}
	s, c := open(store.None)
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < n; from += benchPageSize {
		if _, err := r.Page(context.Background(), benchPods(b, from, benchPageSize, 1+from)); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: "1000000"}); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for _, residency := range []store.Residency{store.All, store.None} {
		b.Run(residency.String(), func(b *testing.B) {
			for b.Loop() {
				s, c := open(residency)
				decoded := 0
				if err := c.Iterate(context.Background(), "",
					func(string, k8sruntime.Object) error { decoded++; return nil }); err != nil || decoded != n {
					b.Fatal(decoded, err)
				}
				b.StopTimer()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				c = nil
				runtime.GC()
				b.StartTimer()
			}
		})
	}
}
