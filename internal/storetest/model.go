package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// Harness gives RunModel access to an implementation of store.Interface.
type Harness struct {
	// Open opens the stored collection, which is the same for each call.
	Open func(t *rapid.T, indexers cache.Indexers, versions map[string]string) store.Interface
	// Close closes the collection before a second call of Open. It is nil if the collection cannot be opened again. The
	// caller of RunModel closes the collection at the end.
	Close func(t *rapid.T)
	// Wait waits for background work of the collection's store; may be nil.
	Wait  func()
	Flush func(t *rapid.T)
	Check func(t *rapid.T)
}

// RunModel applies random operations to a collection and to a map, and compares them after each operation. Run it with
// rapid.Check.
//
// The reported changes are applied to a second map, which must get the same contents. Each change's Old must be the
// object in that map, and a relist must not report unchanged objects.
func RunModel(t *rapid.T, h Harness) {
	m := &model{h: h, rv: 1, pods: map[string]*corev1.Pod{}}
	m.open(t)
	actions := map[string]func(*rapid.T){
		"":            m.compare,
		"apply":       m.apply,
		"replace":     m.replace,
		"addIndexers": m.addIndexers,
		"mustRelist":  m.setMustRelist,
	}
	if h.Wait != nil {
		actions["wait"] = func(*rapid.T) { h.Wait() }
	}
	if h.Flush != nil {
		actions["flush"] = h.Flush
	}
	if h.Close != nil {
		actions["reopen"] = func(t *rapid.T) {
			h.Close(t)
			m.open(t)
		}
	}
	t.Repeat(actions)
}

// model is the expected state of the collection, and runs the random operations of RunModel.
type model struct {
	h    Harness
	c    store.Interface
	rv   int // the resourceVersion of the server's last change
	pods map[string]*corev1.Pod

	storedRV   string
	complete   bool
	mustRelist string
	reported   bool // whether this process has reported any changes
	// unreported are the keys that an earlier process stored from an unfinished list. No process has reported these
	// objects.
	unreported map[string]bool
	funcs      cache.Indexers
}

var modelIndexers = cache.Indexers{
	cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	"color":              ByColor,
	"name":               ByName,
}

// modelKeys are object keys with the bytes that sort next to the slash between namespace and name.
var modelKeys = []string{"a/x", "a/y", "a-b/x", "a.b/x", "a0/x", "b/x", "b/x.y", "b/x-y", "c", "zz/z"}

func (m *model) open(t *rapid.T) {
	funcs := drawIndexers(t)
	m.c = m.h.Open(t, funcs, drawVersions(t))
	m.funcs = maps.Clone(funcs)
	m.reported, m.unreported = false, nil
}

func drawIndexers(t *rapid.T) cache.Indexers {
	funcs := cache.Indexers{}
	for _, name := range slices.Sorted(maps.Keys(modelIndexers)) {
		if rapid.Bool().Draw(t, "index "+name) {
			funcs[name] = modelIndexers[name]
		}
	}
	return funcs
}

func drawVersions(t *rapid.T) map[string]string {
	return map[string]string{"color": rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "version")}
}

func (m *model) next() string {
	m.rv++
	return strconv.Itoa(m.rv)
}

func (m *model) drawPod(t *rapid.T, key string, old *corev1.Pod) *corev1.Pod {
	rv := m.next()
	uid := "uid-" + rv
	if old != nil && rapid.IntRange(0, 5).Draw(t, "recreated") > 0 {
		uid = string(old.UID)
	}
	color := rapid.SampledFrom([]string{"", "red", "green", "red.green", "green.red.red", "blue."}).Draw(t, "color")
	fail := rapid.SampledFrom([]string{"", "", "", "", "", "error", "panic"}).Draw(t, "fail")
	return Pod(key, uid, rv, ColorLabel, color, FailLabel, fail)
}

func (m *model) storable(p *corev1.Pod) bool {
	return m.funcs["color"] == nil || p.Labels[FailLabel] == ""
}

func (m *model) drawKey(t *rapid.T) string { return rapid.SampledFrom(modelKeys).Draw(t, "key") }

func (m *model) apply(t *rapid.T) {
	var b entry.Batch
	var want []string
	skipped := 0
	pods := maps.Clone(m.pods)
	for range rapid.IntRange(0, 4).Draw(t, "ops") {
		key := m.drawKey(t)
		old := pods[key]
		if rapid.IntRange(0, 3).Draw(t, "op") == 0 {
			gone := Pod(key, "uid", m.next())
			b.Ops = append(b.Ops, entry.Op{Type: entry.Delete, Object: drawTombstone(t, key, gone)})
			delete(pods, key)
			delete(m.unreported, key)
			want = append(want, describe(cache.Deleted, key, old, gone))
			continue
		}
		p := m.drawPod(t, key, old)
		b.Ops = append(b.Ops, entry.Op{Object: p})
		if !m.storable(p) {
			skipped++
			continue
		}
		kind := cache.Added
		if old != nil {
			kind = cache.Updated
		}
		want = append(want, describe(kind, key, old, p))
		pods[key] = p
		delete(m.unreported, key)
	}
	b.ResourceVersion = rapid.SampledFrom([]string{"", m.next(), "not a number"}).Draw(t, "batch rv")
	res, err := m.c.Apply(context.Background(), b)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	var got []string
	for _, ch := range res.Changes {
		got = append(got, describe(ch.Type, ch.Key, asPod(ch.Old), asPod(ch.New)))
	}
	if !slices.Equal(got, want) || len(res.Skipped) != skipped {
		t.Fatalf("apply: changes %q, want %q; %d skipped, want %d", got, want, len(res.Skipped), skipped)
	}
	m.pods, m.reported = pods, true
	m.advance(b.ResourceVersion)
}

func (m *model) advance(rv string) {
	switch rv {
	case "":
	case "not a number":
		m.storedRV, m.mustRelist = "", "some reason"
	default:
		m.storedRV = rv
	}
}

func drawTombstone(t *rapid.T, key string, p *corev1.Pod) any {
	if rapid.Bool().Draw(t, "tombstone") {
		return cache.DeletedFinalStateUnknown{Key: key, Obj: p}
	}
	return p
}

// addIndexers adds a random index to the collection. An index whose name exists must be refused.
func (m *model) addIndexers(t *rapid.T) {
	funcs := drawIndexers(t)
	taken := false
	for name := range funcs {
		taken = taken || m.funcs[name] != nil
	}
	if err := m.c.AddIndexers(context.Background(), funcs, drawVersions(t)); (err != nil) != taken {
		t.Fatalf("add %d indexes: %v, but taken is %v", len(funcs), err, taken)
	}
	if !taken {
		maps.Copy(m.funcs, funcs)
	}
}

func (m *model) setMustRelist(t *rapid.T) {
	if err := m.c.SetMustRelist(context.Background(), "asked to"); err != nil {
		t.Fatalf("set must relist: %v", err)
	}
	m.mustRelist = "some reason"
}

func describe(kind cache.DeltaType, key string, before, now *corev1.Pod) string {
	s := fmt.Sprintf("%s %s", kind, key)
	if before != nil {
		s += " old{" + Sum(before) + "}"
	}
	if now != nil {
		s += " new{" + Sum(now) + "}"
	}
	return s
}

func asPod(obj runtime.Object) *corev1.Pod {
	pod, _ := obj.(*corev1.Pod)
	return pod
}

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
