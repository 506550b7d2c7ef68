package store_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/sample"
	"github.com/larder-dev/larder/store"
)

const (
	benchTotal    = 10000
	benchPageSize = 2000
)

func benchPods(b *testing.B, from, n, rv int) []runtime.Object {
	b.Helper()
	pod, _ := sample.Pod(b)
	items := make([]runtime.Object, n)
	for i := range items {
		p := pod.DeepCopy()
		p.Namespace, p.Name = fmt.Sprintf("ns%03d", (from+i)/100), fmt.Sprintf("web-%06d", from+i)
		p.UID, p.ResourceVersion = types.UID(fmt.Sprintf("uid-%d", from+i)), strconv.Itoa(rv+i)
		items[i] = p
	}
	return items
}

func benchCollection(b *testing.B) *store.Collection {
	b.Helper()
	return benchCollectionWith(b, store.Options{})
}

func benchCollectionWith(b *testing.B, o store.Options) *store.Collection {
	b.Helper()
	s, err := store.Open(b.TempDir()+"/larder.db", o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	codec, err := codec.For(&corev1.Pod{})
	if err != nil {
		b.Fatal(err)
	}
	c, err := s.Collection(context.Background(),
		entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
		store.CollectionOptions{Codec: codec, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func benchList(b *testing.B, c *store.Collection, rv int) int {
	b.Helper()
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	changes := 0
	for from := 0; from < benchTotal; from += benchPageSize {
		b.StopTimer()
		items := benchPods(b, from, benchPageSize, 1+from)
		b.StartTimer()
		res, err := r.Page(context.Background(), items)
		if err != nil {
			b.Fatal(err)
		}
		changes += len(res.Changes)
	}
	res, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: strconv.Itoa(rv)})
	if err != nil {
		b.Fatal(err)
	}
	return changes + len(res.Changes)
}

func BenchmarkColdStart10000(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := benchCollection(b)
		b.StartTimer()
		if n := benchList(b, c, benchTotal+1); n != benchTotal {
			b.Fatal(n)
		}
	}
}

func BenchmarkRelistUnchanged10000(b *testing.B) {
	c := benchCollection(b)
	benchList(b, c, benchTotal+1)
	b.ReportAllocs()
	for b.Loop() {
		if n := benchList(b, c, benchTotal+1); n != 0 {
			b.Fatal(n)
		}
	}
}

func BenchmarkApply100(b *testing.B) {
	c := benchCollection(b)
	benchList(b, c, benchTotal+1)
	b.ReportAllocs()
	rv := benchTotal + 2
	for b.Loop() {
		b.StopTimer()
		var batch entry.Batch
		for i, obj := range benchPods(b, 5000, 100, rv) {
			pod := obj.(*corev1.Pod)
			pod.Status.Message = strconv.Itoa(rv + i)
			batch.Ops = append(batch.Ops, entry.Op{Object: pod, Event: cache.Updated})
		}
		rv += 100
		batch.ResourceVersion = strconv.Itoa(rv)
		b.StartTimer()
		if _, err := c.Apply(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead10000(b *testing.B) {
	c := benchCollection(b)
	benchList(b, c, benchTotal+1)
	for name, read := range map[string]func() (int, error){
		"Get": func() (int, error) {
			obj, err := c.Get(context.Background(), "ns050/web-005000")
			if obj == nil {
				return 0, err
			}
			return 1, err
		},
		"Namespace100": func() (int, error) {
			objs, err := c.ByIndex(context.Background(), cache.NamespaceIndex, "ns050")
			return len(objs), err
		},
		"Keys": func() (int, error) {
			keys, err := c.Keys(context.Background())
			return len(keys), err
		},
		"Info": func() (int, error) {
			info, err := c.Info(context.Background())
			return info.Objects, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := read(); n == 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
