package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
	"github.com/larder-dev/larder/store/query"
)

func asUnstructured(t *testing.T, pod *corev1.Pod) runtime.Object {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: m}
}

func asTyped(_ *testing.T, pod *corev1.Pod) runtime.Object { return pod }

func queryCollection(
	t *testing.T, s *store.Store, o store.CollectionOptions, as func(*testing.T, *corev1.Pod) runtime.Object,
) *store.Collection {
	t.Helper()
	o.Indexers = storetest.QueryIndexers
	o.IndexVersions = map[string]string{"color": "1"}
	c, err := s.Collection(t.Context(), storetest.Pods, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if o.Compression != store.NoCompression {
		store.SetSampling(c, 1<<10, 200)
	}
	storeQueryPods(t, c, as)
	return c
}

func storeQueryPods(t *testing.T, c store.Interface, as func(*testing.T, *corev1.Pod) runtime.Object) {
	t.Helper()
	var b entry.Batch
	for _, pod := range storetest.QueryPods() {
		b.Ops = append(b.Ops, entry.Op{Object: as(t, pod)})
	}
	if res, err := c.Apply(t.Context(), b); err != nil || len(res.Skipped) > 0 {
		t.Fatal(res, err)
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	protobuf := storetest.PodCodec()
	json, err := codec.ForMsgpack(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		codec codec.Codec
		as    func(*testing.T, *corev1.Pod) runtime.Object
	}{
		"Protobuf": {protobuf, asTyped}, "JSON": {json, asTyped}, "Unstructured": {codec.Unstructured(), asUnstructured},
		"ForeignCodec": {struct{ codec.Codec }{protobuf}, asTyped},
	} {
		for _, residency := range residencies {
			t.Run(name+residency.String(), func(t *testing.T) {
				testQueries(t, store.CollectionOptions{Codec: c.codec, Residency: residency}, c.as)
			})
		}
		t.Run(name+"Zstd", func(t *testing.T) {
			testQueries(t, store.CollectionOptions{Codec: c.codec, Residency: store.None, Compression: store.Zstd}, c.as)
		})
	}
	t.Run("Memory", func(t *testing.T) {
		m, err := memory.New(storetest.Pods, store.CollectionOptions{Indexers: storetest.QueryIndexers})
		if err != nil {
			t.Fatal(err)
		}
		storeQueryPods(t, m, asTyped)
		storetest.RunQueries(t, m)
	})
}

func testQueries(t *testing.T, o store.CollectionOptions, as func(*testing.T, *corev1.Pod) runtime.Object) {
	s := storetest.Open(t, store.Options{})
	c := queryCollection(t, s, o, as)
	storetest.RunQueries(t, c)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, by, err := compressedBy(c); err != nil || (len(by) > 0) != (o.Compression != store.NoCompression) {
		t.Errorf("compressed records: %v, %v", by, err)
	}
	if o.Residency == store.None { // queries must read the file and not the memtable
		storetest.RunQueries(t, c)
	}
	view, err := codec.View(entry.Typed, o.Codec)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.ViewWith(t.Context(), storetest.Pods, view)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("View", func(t *testing.T) { storetest.RunQueries(t, v) })
}

// TestQueryOfANamespaceWithOtherKeys queries a namespace in a collection whose keys do not begin with it.
func TestQueryOfANamespaceWithOtherKeys(t *testing.T) {
	o := store.CollectionOptions{Codec: storetest.PodCodec(), Indexers: storetest.QueryIndexers,
		KeyFunc: func(obj any) (string, error) {
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
			return "pod:" + key, err
		}}
	m, err := memory.New(storetest.Pods, o)
	if err != nil {
		t.Fatal(err)
	}
	storeQueryPods(t, m, asTyped)
	for _, c := range []store.Interface{m, queryCollection(t, storetest.Open(t, store.Options{}), o, asTyped)} {
		objs, err := c.Select(t.Context(), query.Query{Namespace: "a"})
		if err != nil || len(objs) != 3 || objs[0].(*corev1.Pod).Namespace != "a" {
			t.Errorf("%T: %d objects, %v", c, len(objs), err)
		}
	}
}

func TestQueryByAFieldThatTypedObjectsDoNotHave(t *testing.T) {
	m, err := memory.New(storetest.Pods, store.CollectionOptions{Indexers: storetest.QueryIndexers})
	if err != nil {
		t.Fatal(err)
	}
	storeQueryPods(t, m, asTyped)
	c := queryCollection(t, storetest.Open(t, store.Options{}), store.CollectionOptions{Codec: storetest.PodCodec()},
		asTyped)
	for _, field := range []string{
		"status.fase", "status", "spec.containers", "metadata.labels.color", "metadata.creationTimestamp",
		"metadata.creationTimestamp.Time",
		"spec.containers.name", "", "metadata.", "spec.nodeName.x",
	} {
		q := query.Query{Fields: fields.OneTermEqualSelector(field, "x")}
		for _, c := range []store.Interface{m, c} {
			objs, err := c.Select(t.Context(), q)
			if !errors.Is(err, query.ErrNoField) || len(objs) > 0 || field != "" && !strings.Contains(err.Error(), field) {
				t.Errorf("%T: %q: %d objects, %v", c, field, len(objs), err)
			}
			err = c.Each(t.Context(), q, func(string, runtime.Object) error { return nil })
			if !errors.Is(err, query.ErrNoField) {
				t.Errorf("%T: Each of %q: %v", c, field, err)
			}
		}
	}
}

// TestQueryMatches checks that Query.Matches and Select agree, apart from After and Limit.
func TestQueryMatches(t *testing.T) {
	t.Parallel()
	m, err := memory.New(storetest.Pods, store.CollectionOptions{Indexers: storetest.QueryIndexers})
	if err != nil {
		t.Fatal(err)
	}
	storeQueryPods(t, m, asTyped)
	for _, q := range []query.Query{
		{}, {Namespace: "a"}, {Namespace: "none"}, {Labels: labels.SelectorFromSet(labels.Set{"tier": "front"})},
		{Labels: labels.Nothing()},
		{Namespace: "a", Fields: fields.ParseSelectorOrDie("status.phase=Running,spec.nodeName!=n1")},
	} {
		selected, err := m.Select(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		q.After, q.Limit = "b", 1
		for _, pod := range storetest.QueryPods() {
			want := slices.ContainsFunc(selected, func(obj runtime.Object) bool { return obj.(*corev1.Pod).UID == pod.UID })
			for _, obj := range []runtime.Object{pod, asUnstructured(t, pod)} {
				if got, err := q.Matches(obj); got != want || err != nil {
					t.Errorf("%+v of %s as a %T: %t, %v; want %t", q, pod.UID, obj, got, err, want)
				}
			}
		}
	}
	q := query.Query{Fields: fields.OneTermEqualSelector("status.fase", "x")}
	if got, err := q.Matches(&corev1.Pod{}); got || !errors.Is(err, query.ErrNoField) {
		t.Errorf("%t, %v", got, err)
	}
}

// TestQueryReportsUnreadableObjects checks that Select ignores unreadable objects that the query excludes, and fails on
// unreadable objects that the query may include.
func TestQueryReportsUnreadableObjects(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	o := store.CollectionOptions{Codec: storetest.PodCodec()}
	c := queryCollection(t, s, o, asTyped)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, labels := range []string{"", "tier=front"} {
		// The View uses another codec than the codec that wrote the objects.
		v, err := s.ViewWith(t.Context(), storetest.Pods, codec.Unstructured())
		if err != nil {
			t.Fatal(err)
		}
		sel, err := metav1.ParseToLabelSelector(labels)
		if err != nil {
			t.Fatal(err)
		}
		selector, err := metav1.LabelSelectorAsSelector(sel)
		if err != nil {
			t.Fatal(err)
		}
		if objs, err := v.Select(t.Context(), query.Query{Labels: selector}); !errors.Is(err, entry.ErrIncompatible) ||
			len(objs) > 0 {
			t.Errorf("%q: %d objects, %v", labels, len(objs), err)
		}
	}
	if objs, err := c.Select(t.Context(), query.Query{}); err != nil || len(objs) != len(storetest.QueryPods()) {
		t.Errorf("with the right codec: %d objects, %v", len(objs), err)
	}
}

// TestEachGoesThroughManyPages checks that Each ends even if few objects of a large collection are selected.
func TestEachGoesThroughManyPages(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	c := openPods(t, s, nil)
	var b entry.Batch
	for i := range 1777 {
		b.Ops = append(b.Ops, entry.Op{Object: storetest.Pod(fmt.Sprintf("a/%04d", i), "uid", "1", storetest.ColorLabel,
			fmt.Sprint(i%2))})
	}
	if _, err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]int{"metadata.uid=uid": 1777, "metadata.name=1776": 1, "metadata.name=none": 0} {
		n, last := 0, ""
		err := c.Each(t.Context(), query.Query{Fields: fields.ParseSelectorOrDie(field)},
			func(key string, _ runtime.Object) error {
				if key <= last {
					t.Errorf("%s after %s", key, last)
				}
				n, last = n+1, key
				return nil
			})
		if err != nil || n != want {
			t.Errorf("%s: %d objects, %v; want %d", field, n, err, want)
		}
	}
}
