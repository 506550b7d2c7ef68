package store_test

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

func indexersOf(b *testing.B, n int) map[string]cache.Indexer {
	b.Helper()
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	s, err := store.Open(b.TempDir()+"/larder.db", store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	made := map[string]cache.Indexer{"clientgo": cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)}
	c, err := s.Collection(b.Context(), pods(),
		store.CollectionOptions{Codec: mustCodec(b, &corev1.Pod{}), Indexers: byNamespace})
	if err != nil {
		b.Fatal(err)
	}
	made["All"] = c.Indexer()
	for _, indexer := range made {
		for i := range n {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace(i), Name: benchName(i),
				ResourceVersion: strconv.Itoa(i + 1)}}
			if err := indexer.Add(pod); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return made
}

func benchNamespace(i int) string { return fmt.Sprintf("ns%02d", i%100) }
func benchName(i int) string      { return fmt.Sprintf("pod-%06d", i) }

// BenchmarkIndexer compares reads of decoded objects in memory with reads of client-go's indexer.
func BenchmarkIndexer(b *testing.B) {
	const n = 100_000
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = benchNamespace(i*97%n) + "/" + benchName(i*97%n)
	}
	for name, indexer := range indexersOf(b, n) {
		get := func(b *testing.B, i int) {
			if _, ok, err := indexer.GetByKey(keys[i%len(keys)]); !ok || err != nil {
				b.Error(ok, err)
			}
		}
		for i := range keys {
			get(b, i)
		}
		byIndex := func(b *testing.B, i int) {
			if objs, err := indexer.ByIndex(cache.NamespaceIndex, benchNamespace(i)); len(objs) != n/100 || err != nil {
				b.Error(len(objs), err)
			}
		}
		for what, read := range map[string]func(*testing.B, int){"GetByKey": get, "ByIndex": byIndex} {
			b.Run(what+"/"+name, func(b *testing.B) {
				for i := range b.N {
					read(b, i)
				}
			})
			b.Run(what+"Parallel/"+name, func(b *testing.B) {
				b.SetParallelism(4) // eight goroutines on a machine with two cores
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						read(b, i)
					}
				})
			})
		}
		b.Run("List/"+name, func(b *testing.B) {
			for range b.N {
				if objs := indexer.List(); len(objs) != n {
					b.Fatal(len(objs))
				}
			}
		})
	}
}
