package store_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// benchLabelled stores pods, one in a hundred of which has the label team=a.
func benchLabelled(b *testing.B, codec codec.Codec, total int) *store.Collection {
	b.Helper()
	s, err := store.Open(b.TempDir()+"/larder.db", store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	c, err := s.Collection(context.Background(), pods(), store.CollectionOptions{Codec: codec})
	if err != nil {
		b.Fatal(err)
	}
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < total; from += benchPageSize {
		items := benchPods(b, from, benchPageSize, 1+from)
		for i, item := range items {
			pod := item.(*corev1.Pod)
			pod.Labels["team"] = "b"
			if (from+i)%100 == 7 {
				pod.Labels["team"], pod.Spec.NodeName = "a", "node-a"
			}
			if codec.Name() == "msgpack" {
				m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
				if err != nil {
					b.Fatal(err)
				}
				items[i] = &unstructured.Unstructured{Object: m}
			}
		}
		if _, err := r.Page(context.Background(), items); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: fmt.Sprint(total + 1)}); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkSelect selects 1,000 of 100,000 pods by a label and by a field, and, for comparison, by decoding all pods.
func BenchmarkSelect(b *testing.B) {
	const total = 100_000
	team := labels.SelectorFromSet(labels.Set{"team": "a"})
	for name, codec := range map[string]codec.Codec{"protobuf": mustCodec(b, &corev1.Pod{}),
		"unstructured": codec.Unstructured()} {
		c := benchLabelled(b, codec, total)
		run := func(what string, want int, q query.Query) {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if objs, err := c.Select(context.Background(), q); err != nil || len(objs) != want {
						b.Fatal(len(objs), err)
					}
				}
			})
		}
		run("label", total/100, query.Query{Labels: team})
		run("field", total/100, query.Query{Fields: fields.OneTermEqualSelector("spec.nodeName", "node-a")})
		run("namespace", 100, query.Query{Namespace: "ns500"})
		run("page", 20, query.Query{Labels: team, After: "ns500", Limit: 20})
		b.Run(name+"/decoding", func(b *testing.B) { benchDecoding(b, c, team, total/100) })
	}
}

func benchDecoding(b *testing.B, c *store.Collection, team labels.Selector, want int) {
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		err := c.Iterate(context.Background(), "", func(_ string, obj runtime.Object) error {
			m, err := meta.Accessor(obj)
			if err == nil && team.Matches(labels.Set(m.GetLabels())) {
				n++
			}
			return err
		})
		if err != nil || n != want {
			b.Fatal(n, err)
		}
	}
}
