package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// Harness is how RunModel gets at an implementation of store.Interface.
type Harness struct {
	// Open opens the collection, the same one each time.
	Open func(t *rapid.T, indexers cache.Indexers, versions map[string]string) store.Interface
	// Close closes what Open returned, to be opened again; nil if the collection ends
	// with it. The last one is left to the caller.
	Close func(t *rapid.T)
	// Settle waits for background work; may be nil.
	Settle func()
	// Flush commits what is pending; may be nil.
	Flush func(t *rapid.T)
	// Check verifies the collection's integrity; may be nil.
	Check func(t *rapid.T)
}

// RunModel does random things to a collection and to a map, and compares them after
// each. Run it with rapid.Check.
//
// Besides the contents it follows the changes that the collection reports: applied
// to a map of their own they must give the contents too, each Old must be what
// that map had, and a relist must not report what did not change.
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
	if h.Settle != nil {
		actions["settle"] = func(*rapid.T) { h.Settle() }
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

// model is what the collection must be.
type model struct {
	h    Harness
	c    store.Interface
	rv   int // of the server's last change
	pods map[string]*corev1.Pod

	storedRV   string
	complete   bool
	mustRelist string
	reported   bool // this process has reported changes
	// unheard are the keys of what an earlier process has stored of a list that did not end.
	unheard map[string]bool
	funcs   cache.Indexers
}

var modelIndexers = cache.Indexers{
	cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	"color":              ByColor,
	"name":               ByName,
}

// modelKeys are around the separator's neighbours in byte order.
var modelKeys = []string{"a/x", "a/y", "a-b/x", "a.b/x", "a0/x", "b/x", "b/x.y", "b/x-y", "c", "zz/z"}

func (m *model) open(t *rapid.T) {
	funcs := drawIndexers(t)
	m.c = m.h.Open(t, funcs, drawVersions(t))
	m.funcs = maps.Clone(funcs)
	m.reported, m.unheard = false, nil
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

// drawPod draws the next state of key, at a resourceVersion of its own.
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

// storable reports whether the collection can index the pod.
func (m *model) storable(p *corev1.Pod) bool {
	return m.funcs["color"] == nil || p.Labels[FailLabel] == ""
}

func (m *model) drawKey(t *rapid.T) string { return rapid.SampledFrom(modelKeys).Draw(t, "key") }

// apply gives the collection a batch.
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
			delete(m.unheard, key)
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
		delete(m.unheard, key)
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

// drawTombstone draws one of the forms in which a delete can come.
func drawTombstone(t *rapid.T, key string, p *corev1.Pod) any {
	if rapid.Bool().Draw(t, "tombstone") {
		return cache.DeletedFinalStateUnknown{Key: key, Obj: p}
	}
	return p
}

// addIndexers adds an index, or fails to because there is one of the name.
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

// describe is one line that two equal changes share.
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
