package storetest

import (
	"context"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/query"
)

func (m *model) compare(t *rapid.T) {
	ctx := context.Background()
	keys := slices.Sorted(maps.Keys(m.pods))
	var sums []string
	for _, key := range keys {
		sums = append(sums, Sum(m.pods[key]))
	}

	got, err := m.c.Keys(ctx)
	equal(t, "Keys", got, keys, err)
	objs, err := m.c.List(ctx)
	equal(t, "List", sumsOf(objs), sums, err)
	after := rapid.SampledFrom(append(modelKeys, "")).Draw(t, "after")
	var iterated, rest []string
	err = m.c.Iterate(ctx, after, func(key string, obj runtime.Object) error {
		iterated = append(iterated, Sum(obj))
		return nil
	})
	for i, key := range keys {
		if key > after {
			rest = append(rest, sums[i])
		}
	}
	equal(t, "Iterate", iterated, rest, err)
	for _, key := range modelKeys {
		obj, err := m.c.Get(ctx, key)
		if want := m.pods[key]; err != nil || (obj == nil) != (want == nil) || want != nil && Sum(obj) != Sum(want) {
			t.Fatalf("Get(%q) is %v, %v", key, obj, err)
		}
	}
	m.compareQuery(t)
	m.compareIndexes(t)
	m.compareInfo(t)
	if m.h.Check != nil {
		m.h.Check(t)
	}
}

func (m *model) compareIndexes(t *rapid.T) {
	ctx := context.Background()
	equal(t, "Indexers", slices.Sorted(maps.Keys(m.c.Indexers())), slices.Sorted(maps.Keys(m.funcs)), nil)
	for name, fn := range m.funcs {
		want := map[string][]string{}
		for _, key := range slices.Sorted(maps.Keys(m.pods)) {
			var values []string
			if m.storable(m.pods[key]) || name != "color" {
				values, _ = fn(m.pods[key])
			}
			for _, value := range values {
				if !slices.Contains(want[value], key) {
					want[value] = append(want[value], key)
				}
			}
		}
		values, err := m.c.IndexValues(ctx, name)
		equal(t, "IndexValues "+name, values, slices.Sorted(maps.Keys(want)), err)
		for _, value := range append(values, "none", "re", "") {
			keys, err := m.c.IndexKeys(ctx, name, value)
			equal(t, "IndexKeys "+name+" "+value, keys, want[value], err)
			objs, err := m.c.ByIndex(ctx, name, value)
			var sums []string
			for _, key := range want[value] {
				sums = append(sums, Sum(m.pods[key]))
			}
			equal(t, "ByIndex "+name+" "+value, sumsOf(objs), sums, err)
		}
	}
}

// compareQuery compares the result of a random query with the result of a filter over the map.
func (m *model) compareQuery(t *rapid.T) {
	q := query.Query{
		Namespace: rapid.SampledFrom([]string{"", "a", "a-b", "b", "none"}).Draw(t, "namespace"),
		After:     rapid.SampledFrom(append(modelKeys, "")).Draw(t, "after"),
		Limit:     rapid.IntRange(0, 4).Draw(t, "limit"),
	}
	text := rapid.SampledFrom([]string{"", "color=red", "color!=red", "!color", "color,fail!=panic"}).Draw(t, "labels")
	selector, err := labels.Parse(text)
	if err != nil {
		t.Fatalf("selector: %v", err)
	}
	q.Labels = selector
	var want []string
	for _, key := range slices.Sorted(maps.Keys(m.pods)) {
		p := m.pods[key]
		if key > q.After && (q.Namespace == "" || p.Namespace == q.Namespace) && selector.Matches(labels.Set(p.Labels)) &&
			(q.Limit == 0 || len(want) < q.Limit) {
			want = append(want, Sum(p))
		}
	}
	objs, err := m.c.Select(context.Background(), q)
	equal(t, "Select", sumsOf(objs), want, err)
	var each []string
	err = m.c.Each(context.Background(), q, func(_ string, obj runtime.Object) error {
		each = append(each, Sum(obj))
		return nil
	})
	equal(t, "Each", each, want, err)
}

func (m *model) compareInfo(t *rapid.T) {
	info, err := m.c.Info(context.Background())
	if err != nil || info.ResourceVersion != m.storedRV || info.Complete != m.complete ||
		info.Objects != len(m.pods) || (info.MustRelist != "") != (m.mustRelist != "") {
		t.Fatalf("Info is %+v, %v; want resourceVersion %q, complete %v, must relist %q, %d objects",
			info, err, m.storedRV, m.complete, m.mustRelist, len(m.pods))
	}
	last := 1 << 30
	for _, ref := range info.Newest {
		p := m.pods[ref.Key]
		if p == nil || p.ResourceVersion != ref.ResourceVersion || string(p.UID) != ref.UID {
			t.Fatalf("Newest names %+v, which is not stored", ref)
		}
		rv, _ := strconv.Atoi(ref.ResourceVersion)
		if rv >= last {
			t.Fatalf("Newest is out of order: %+v", info.Newest)
		}
		last = rv
	}
}

// compareNewest checks that Info.Newest has the newest objects of the map. Call it only after a list in which every
// object could be stored.
func (m *model) compareNewest(t *rapid.T, info entry.Info) {
	pods := slices.SortedFunc(maps.Values(m.pods), func(a, b *corev1.Pod) int {
		x, _ := strconv.Atoi(a.ResourceVersion)
		y, _ := strconv.Atoi(b.ResourceVersion)
		return y - x
	})
	var want, got []string
	for _, p := range pods[:min(8, len(pods))] {
		want = append(want, p.ResourceVersion)
	}
	for _, ref := range info.Newest {
		got = append(got, ref.ResourceVersion)
	}
	equal(t, "Newest", got, want, nil)
}

func sumsOf(objs []runtime.Object) []string {
	var sums []string
	for _, obj := range objs {
		sums = append(sums, Sum(obj))
	}
	return sums
}

func equal(t *rapid.T, what string, got, want []string, err error) {
	t.Helper()
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s: %q, %v; want %q", what, got, err, want)
	}
}
