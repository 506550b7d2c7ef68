package storetest

import (
	"context"
	"errors"
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

// relist is one list from a server: the state at one resourceVersion, in pages, while further events arrive. Some pages
// have a later state, as after an inconsistent continue token.
type relist struct {
	m       *model
	r       store.Replacement
	rewrite bool
	cold    bool
	visible map[string]*corev1.Pod // the objects that readers must see now
	shown   bool                   // changes were visible before the list ended, because they were too large to hold back
	// unreportedAtBegin are the keys of objects that no process had reported when the list began.
	unreportedAtBegin map[string]bool

	server   map[string]*corev1.Pod // the server's current state by key
	listed   map[string]item        // the newest state by key that the list or an event has sent
	events   []item
	shadow   map[string]*corev1.Pod // the state that results from the reported changes
	skipping bool
}

// item is a state of an object from a list page or a watch event.
type item struct {
	key string
	pod *corev1.Pod // the object; for a delete, its last state
	del bool
	ok  bool // whether the collection's index functions accepted the object when it arrived
}

func (m *model) replace(t *rapid.T) {
	ctx := context.Background()
	l := &relist{
		m: m, rewrite: rapid.Bool().Draw(t, "rewrite"), cold: !m.complete && !m.reported,
		server: map[string]*corev1.Pod{}, listed: map[string]item{}, shadow: maps.Clone(m.pods),
	}
	if l.cold { // the stored objects are of an earlier process's unfinished list, and were never reported
		m.unreported = map[string]bool{}
		for key := range m.pods {
			m.unreported[key] = true
		}
	}
	l.visible = maps.Clone(m.pods)
	for key := range m.unreported {
		delete(l.shadow, key)
	}
	l.unreportedAtBegin = maps.Clone(m.unreported)
	attrs := entry.Attributes{ClusterID: "cluster " + m.next()}
	var err error
	if l.r, err = m.c.BeginReplace(ctx, store.ReplaceOptions{Rewrite: l.rewrite, Attributes: attrs}); err != nil {
		t.Fatalf("begin replace: %v", err)
	}
	l.drawServer(t)
	l.stream(t)
	if rapid.IntRange(0, 4).Draw(t, "end") == 0 {
		l.abort(t)
		return
	}
	l.commit(t, attrs)
}

func (l *relist) drawServer(t *rapid.T) {
	for _, key := range modelKeys {
		old := l.shadow[key]
		switch rapid.IntRange(0, 5).Draw(t, "server "+key) {
		case 0: // the server has deleted the object
		case 1:
			l.server[key] = l.m.drawPod(t, key, old)
		case 2: // other content at the same resourceVersion, as after a change of a default value
			if old != nil {
				old = old.DeepCopy()
				old.Labels = map[string]string{"default": l.m.next(), FailLabel: old.Labels[FailLabel]}
				if old.Labels[FailLabel] == "" {
					delete(old.Labels, FailLabel)
				}
				l.server[key] = old
			}
		default:
			if old != nil {
				l.server[key] = old
			}
		}
	}
}

func (l *relist) stream(t *rapid.T) {
	snapshot := maps.Clone(l.server)
	keys := slices.Sorted(maps.Keys(snapshot))
	if rapid.IntRange(0, 3).Draw(t, "order") == 0 {
		keys = rapid.Permutation(keys).Draw(t, "keys")
	}
	size := rapid.IntRange(1, 4).Draw(t, "page size")
	for len(keys) > 0 {
		for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "events") {
			l.sendEvent(t)
		}
		n := min(size, len(keys))
		from := snapshot
		if rapid.IntRange(0, 5).Draw(t, "late") == 0 {
			from = l.server
		}
		var items []runtime.Object
		for _, key := range keys[:n] {
			items = l.list(items, from[key])
		}
		sent := keys[:n]
		keys = keys[n:]
		if len(keys) > 0 && rapid.IntRange(0, 5).Draw(t, "twice") == 0 {
			// A server that does not sort may send a key in two pages, but not twice in one page. The second state is not older.
			again := rapid.SampledFrom(slices.Sorted(maps.Keys(snapshot))).Draw(t, "again")
			switch _, listed := l.listed[again]; {
			case slices.Contains(sent, again):
			case listed:
				items = l.list(items, l.server[again])
			default:
				items = l.list(items, snapshot[again])
			}
		}
		res, err := l.r.Page(context.Background(), items)
		l.take(t, res, err)
		l.checkVisible(t)
	}
	for range rapid.IntRange(0, 2).Draw(t, "events") {
		l.sendEvent(t)
	}
}

func (l *relist) list(items []runtime.Object, p *corev1.Pod) []runtime.Object {
	if p == nil {
		return items
	}
	key, _ := cache.MetaNamespaceKeyFunc(p)
	ok := l.m.storable(p)
	if have, again := l.listed[key]; !again || rvOf(have.pod) < rvOf(p) && (ok || !have.ok) {
		l.listed[key] = item{key: key, pod: p, ok: ok}
	}
	return append(items, p)
}

func (l *relist) sendEvent(t *rapid.T) {
	key := l.m.drawKey(t)
	old := l.server[key]
	op := entry.Op{}
	e := item{key: key}
	if old != nil && rapid.IntRange(0, 2).Draw(t, "event") == 0 {
		e.del, e.pod = true, old.DeepCopy()
		// The delete of an object that was never reported takes effect at once, and is not reported.
		if l.m.unreported[key] && (l.cold || l.shown) {
			delete(l.visible, key)
			delete(l.m.unreported, key)
		}
		e.pod.ResourceVersion = l.m.next()
		op = entry.Op{Type: entry.Delete, Object: e.pod}
		delete(l.server, key)
	} else {
		e.pod = l.m.drawPod(t, key, old)
		op.Object = e.pod
		l.server[key] = e.pod
	}
	e.ok = e.del || l.m.storable(e.pod)
	l.events = append(l.events, e)
	res, err := l.r.Event(context.Background(), op)
	l.take(t, res, err)
}

// take checks the changes that a step of the list has reported, and applies them to shadow.
func (l *relist) take(t *rapid.T, res entry.Result, err error) {
	if err != nil {
		t.Fatalf("replacement: %v", err)
	}
	if l.cold && len(res.Changes) > 0 {
		l.m.reported = true
	}
	l.skipping = l.skipping || len(res.Skipped) > 0
	l.shown = l.shown || !l.cold && !res.Staged
	for _, ch := range res.Changes {
		old, now := asPod(ch.Old), asPod(ch.New)
		delete(l.m.unreported, ch.Key)
		if have := l.shadow[ch.Key]; (old == nil) != (have == nil) || old != nil && Sum(old) != Sum(have) {
			t.Fatalf("%s %s has another old state than was reported last", ch.Type, ch.Key)
		}
		if old != nil && now != nil && Sum(old) == Sum(now) {
			t.Fatalf("%s %s reports what did not change", ch.Type, ch.Key)
		}
		switch {
		case ch.Type == cache.Added && old == nil && now != nil, ch.Type == cache.Updated && old != nil && now != nil:
			l.shadow[ch.Key] = now
			l.visible[ch.Key] = now
		case ch.Type == cache.Deleted && old != nil && (now == nil || l.cold || l.shown):
			delete(l.shadow, ch.Key)
			delete(l.visible, ch.Key)
		default:
			t.Fatalf("%s %s with old %v and new %v", ch.Type, ch.Key, old != nil, now != nil)
		}
	}
}

// checkVisible checks that readers see each change of a list from the moment it is reported, and not before.
func (l *relist) checkVisible(t *rapid.T) {
	objs, err := l.m.c.List(context.Background())
	var want []string
	for _, key := range slices.Sorted(maps.Keys(l.visible)) {
		want = append(want, Sum(l.visible[key]))
	}
	equal(t, "List during a relist", sumsOf(objs), want, err)
	if _, err := l.m.c.Apply(context.Background(), entry.Batch{ResourceVersion: "1"}); !errors.Is(err,
		store.ErrReplacing) {
		t.Fatalf("Apply during a relist: %v", err)
	}
	if _, err := l.m.c.BeginReplace(context.Background(), store.ReplaceOptions{}); !errors.Is(err, store.ErrReplacing) {
		t.Fatalf("BeginReplace during a relist: %v", err)
	}
	if rapid.IntRange(0, 9).Draw(t, "indexers") == 0 {
		l.m.addIndexers(t)
	}
}

func (l *relist) abort(t *rapid.T) {
	l.r.Abort()
	l.m.pods = l.visible // an aborted list leaves the changes that were already visible
	if l.shown {
		l.m.mustRelist = "some reason"
	}
	if _, err := l.r.Page(context.Background(), nil); err == nil {
		t.Fatalf("a page was taken after the abort")
	}
}

func (l *relist) commit(t *rapid.T, attrs entry.Attributes) {
	ctx := context.Background()
	rv := rapid.SampledFrom([]string{l.m.next(), l.m.next(), "", "not a number"}).Draw(t, "list rv")
	want := l.expected()
	var order []string
	for more := true; more; {
		res, err := l.r.Commit(ctx, entry.Batch{ResourceVersion: rv})
		shown := l.shown
		l.take(t, res, err)
		l.shown = shown
		for _, ch := range res.Changes {
			order = append(order, fmt.Sprint(ch.Type != cache.Deleted, ch.Key))
		}
		if more = res.More; more {
			l.betweenCommits(t)
		}
	}
	if !l.cold && !l.shown && !slices.IsSorted(order) {
		t.Fatalf("the changes of a commit are not deletes and then the others, each in key order: %q", order)
	}
	l.r.Abort() // Abort after the end of a list has no effect
	for key := range want {
		if l.shadow[key] == nil || Sum(l.shadow[key]) != Sum(want[key]) {
			t.Fatalf("%s is reported as %s, want %s", key, Sum(l.shadow[key]), Sum(want[key]))
		}
	}
	for key := range l.shadow {
		if want[key] == nil {
			t.Fatalf("%s is reported as %s, want none", key, Sum(l.shadow[key]))
		}
	}
	l.m.pods, l.m.complete, l.m.mustRelist, l.m.storedRV, l.m.reported, l.m.unreported = want, true, "", "", true, nil
	if rv == "" {
		l.m.mustRelist = "some reason"
	}
	l.m.advance(rv)
	info, err := l.m.c.Info(ctx)
	if err != nil || info.Attributes != attrs {
		t.Fatalf("attributes are %+v, %v; want %+v", info.Attributes, err, attrs)
	}
	if !l.skipping {
		l.m.compareNewest(t, info)
	}
}

// betweenCommits checks that between two steps of the list's commit, readers see the reported changes and MustRelist is
// set.
func (l *relist) betweenCommits(t *rapid.T) {
	objs, err := l.m.c.List(context.Background())
	var want []string
	for _, key := range slices.Sorted(maps.Keys(l.shadow)) {
		want = append(want, Sum(l.shadow[key]))
	}
	if len(l.m.unreported) == 0 {
		equal(t, "List between the transactions of a commit", sumsOf(objs), want, err)
	}
	if info, err := l.m.c.Info(context.Background()); err != nil || info.MustRelist == "" {
		t.Fatalf("half of a list is applied, and can be resumed: %+v, %v", info, err)
	}
	if _, err := l.m.c.Apply(context.Background(), entry.Batch{ResourceVersion: "1"}); !errors.Is(err,
		store.ErrReplacing) {
		t.Fatalf("Apply during a commit: %v", err)
	}
}

func (l *relist) expected() map[string]*corev1.Pod {
	want := map[string]*corev1.Pod{}
	for key, it := range l.listed {
		old, p := l.m.pods[key], it.pod
		if l.unreportedAtBegin[key] {
			old = nil
		}
		switch {
		case it.ok:
			want[key] = p
		case old != nil: // an object that could not be stored keeps its old state
			want[key] = old
		}
	}
	for _, e := range l.events {
		listed, found := l.listed[e.key]
		switch {
		case found && listed.ok && rvOf(listed.pod) >= rvOf(e.pod):
		case e.del:
			delete(want, e.key)
		case e.ok:
			want[e.key] = e.pod
		}
	}
	return want
}

func rvOf(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.ResourceVersion)
	return n
}
