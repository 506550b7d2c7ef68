package informer

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

// This file tests parts of the informer that cannot be tested from outside the package.

var pods = entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}

func TestSourceOf(t *testing.T) {
	all := facts{complete: true, live: true, applied: true, healthy: true}
	for _, tt := range []struct {
		modify func(f *facts)
		want   Source
	}{
		{func(*facts) {}, Live},
		{func(f *facts) { f.complete = false }, None},
		{func(f *facts) { f.live = false }, FromDisk},
		{func(f *facts) { f.applied = false }, FromDisk},
		{func(f *facts) { f.missing = true }, FromDisk},
		{func(f *facts) { f.healthy = false }, FromDisk},
		{func(f *facts) { f.stopped = true }, FromDisk},
		{func(f *facts) { *f = facts{complete: true} }, FromDisk},
		{func(f *facts) { *f = facts{} }, None},
	} {
		f := all
		tt.modify(&f)
		if got := sourceOf(f); got != tt.want {
			t.Errorf("%+v: %s, want %s", f, got, tt.want)
		}
	}
}

func TestResyncPeriods(t *testing.T) {
	type result struct{ requested, effective, check time.Duration }
	for _, tc := range []struct {
		name           string
		check, request time.Duration
		started        bool
		want           result
	}{
		{"none", 0, 0, false, result{0, 0, 0}},
		{"no resyncs in this informer", 0, time.Minute, true, result{0, 0, 0}},
		{"no resyncs yet", 0, time.Minute, false, result{time.Minute, 0, 0}},
		{"longer", time.Minute, time.Hour, false, result{time.Hour, time.Hour, time.Minute}},
		{"shorter, before the start", time.Minute, 10 * time.Second, false,
			result{10 * time.Second, 10 * time.Second, 10 * time.Second}},
		{"shorter, after the start", time.Minute, 10 * time.Second, true, result{time.Minute, time.Minute, time.Minute}},
		{"below the minimum", time.Minute, time.Millisecond, false, result{time.Second, time.Second, time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := &Informer{resyncCheckPeriod: tc.check, started: tc.started, clock: clock.RealClock{}}
			silent := func(string, ...any) {}
			i.mu.Lock()
			defer i.mu.Unlock()
			requested := i.requestedResyncLocked(silent, tc.request)
			got := result{requested, effectiveResync(silent, requested, i.resyncCheckPeriod),
				i.resyncCheckPeriod}
			if tc.check == 0 && tc.request > 0 {
				// As in client-go, a check period of zero accepts any requested resync period, and then no resync happens.
				tc.want = result{tc.request, 0, 0}
			}
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestResyncPeriodOfEarlierHandlers(t *testing.T) {
	i := &Informer{o: Options{ResyncPeriod: 30 * time.Second}, resyncCheckPeriod: 30 * time.Second,
		clock: clock.RealClock{}, synced: newSynced(nil)}
	regs := []cache.ResourceEventHandlerRegistration{}
	for _, p := range []time.Duration{45 * time.Second, 20 * time.Second, 40 * time.Second, 5 * time.Second} {
		reg, err := i.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, p)
		if err != nil {
			t.Fatal(err)
		}
		regs = append(regs, reg)
	}
	for n, want := range []time.Duration{45 * time.Second, 20 * time.Second, 40 * time.Second, 5 * time.Second} {
		if got := regs[n].(*delivery.Listener).InForce(); got != want {
			t.Errorf("handler %d: %v, want %v", n, got, want)
		}
	}
	if i.resyncCheckPeriod != 5*time.Second {
		t.Errorf("check period %v", i.resyncCheckPeriod)
	}
}

// TestRefsOfAList checks that a list of metadata keeps no stored object in a cold start, or if the list has to replace
// all stored objects.
func TestRefsOfAList(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "1", ResourceVersion: "2"}}
	pg := &refsPage{refs: []entry.ObjectRef{{Key: "a/b", UID: "1", ResourceVersion: "2"}}}
	for _, tt := range []struct {
		cold, rewrites bool
		missing        int
	}{{false, false, 0}, {true, false, 1}, {false, true, 1}} {
		m, err := memory.New(pods, store.CollectionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Type: entry.Upsert, Object: pod}}}); err != nil {
			t.Fatal(err)
		}
		i := &sharedInformer{store: m, distribution: &distribution{deltasMu: base.NewMutex()},
			auditor: audit.New(audit.Options{}), sync: newSyncing(func() {}), clock: clock.RealClock{}}
		p := &loop{sharedInformer: i, cold: tt.cold, rewrites: tt.rewrites}
		if p.list, err = m.BeginReplace(t.Context(), store.ReplaceOptions{Rewrite: tt.rewrites}); err != nil {
			t.Fatal(err)
		}
		if err := p.takeRefs(t.Context(), pg); err != nil || len(pg.missing) != tt.missing {
			t.Errorf("%+v: missing %v, %v", tt, pg.missing, err)
		}
	}
}

// TestUnguardedSchema checks that the reason names the option to set, also in a factory.
func TestUnguardedSchema(t *testing.T) {
	for form, want := range map[entry.Representation]bool{entry.Typed: true, entry.Unstructured: true,
		entry.Metadata: false} {
		o := Options{Identity: pods}
		o.Identity.Representation = form
		why, refused := unguardedBy(o)[attributes.Schema]
		if refused != want || refused && !strings.Contains(why, "factory.Options.RESTClient") {
			t.Errorf("%s: %q", form, why)
		}
	}
}

func TestSecrets(t *testing.T) {
	secrets := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("Secret")
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("example.com/v1")
	crd.SetKind("Secret")
	for _, tc := range []struct {
		name    string
		id      entry.Identity
		example runtime.Object
		want    bool
	}{
		{"typed", secrets, &corev1.Secret{}, true},
		{"metadata", secrets, &metav1.PartialObjectMetadata{}, true},
		{"unstructured", secrets, u, true},
		{"called otherwise", entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("things")},
			&corev1.Secret{}, true},
		{"called otherwise, unstructured",
			entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("things")}, u, true},
		{"custom resource of that name",
			entry.Identity{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
				Resource: "secrets"}}, crd, false},
		{"pods", pods, &corev1.Pod{}, false},
	} {
		if got := holdsSecrets(tc.id, tc.example); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

func TestKindOfExample(t *testing.T) {
	for kind, example := range map[string]runtime.Object{
		"Pod":    &corev1.Pod{},
		"Widget": &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Widget"}},
		"":       &metav1.PartialObjectMetadata{},
	} {
		if got := kindOfExample(example); got != kind {
			t.Errorf("%T: %q, want %q", example, got, kind)
		}
	}
}

// TestSyncing checks that the informer syncs when the process loop reaches a fifo.Drained delta ("mark") while no
// object is missing. A dropped mark does not count. A mark that was reached while objects were missing counts once they
// are restored.
func TestSyncing(t *testing.T) {
	type batch struct{ mark, missing, synced, level bool }
	for name, batches := range map[string][]batch{
		"a mark":            {{}, {mark: true, synced: true, level: true}},
		"missing, and back": {{mark: true, missing: true}, {missing: true}, {synced: true, level: true}},
		"live, and missing": {
			{mark: true, synced: true, level: true}, {mark: true, missing: true, synced: true}, {synced: true, level: true},
		},
	} {
		s := newSyncing(func() {})
		for n, b := range batches {
			if b.mark {
				s.pushed.Add(1)
			}
			s.missing.Store(b.missing)
			s.processed(b.mark)
			if got := s.isDone(); got != b.synced {
				t.Errorf("%s, batch %d: synced %t", name, n, got)
			}
			if got := s.level(); got != b.level && s.pushed.Load() > 0 {
				t.Errorf("%s, batch %d: level %t", name, n, got)
			}
		}
	}
}
