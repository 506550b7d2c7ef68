package factory

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/fakeapi"
)

func TestNamespace(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(pods, pod("a", "1", "x"), pod("b", "1", "x")))
	must(t, s.Load(nodes, &corev1.Node{ObjectMeta: metaOf("", "n", "x")}))
	st := openStore(t, t.TempDir())
	defer closeStore(t, st)
	for _, fl := range flavors {
		o := on(t, st)
		o.Namespace = "a"
		f := fl.ours(t, c, o, &corev1.Pod{}, &corev1.Node{})
		reg, stop := f.start(t, pods, &recorder{})
		f.waitSynced(t, reg)
		equal(t, fl.name, f.listed(t, pods), []string{"a/1=x"})
		if fl.name == "typed" {
			equal(t, "nodes have no namespace", f.listed(t, nodes), []string{"n=x"})
		}
		stop()
	}
	for _, r := range s.Log() {
		if r.Resource == "pods" && r.Path != "/api/v1/namespaces/a/pods" {
			t.Errorf("asked for %s", r.Path)
		}
	}
	all, err := st.Collections(t.Context())
	must(t, err)
	for _, info := range all {
		if want := map[string]string{"pods": "a", "nodes": ""}[info.Identity.Resource]; info.Identity.Namespace != want {
			t.Errorf("collection of %s", info.Identity)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d collections", len(all))
	}
}

// TestScope checks that the selectors, including the shard selector, are in the collection's identity and in every
// request. A look-up by name combines them with its own field selector.
func TestScope(t *testing.T) {
	shard, err := entry.ShardSelector(1, 3)
	must(t, err)
	o := Options{Namespace: "a", TweakListOptions: func(o *metav1.ListOptions) {
		o.LabelSelector, o.FieldSelector, o.ShardSelector = "l=1", "f=1", shard
	}}
	id := maker{scope: o.scope()}.identity(pods)
	if want := (entry.Identity{GroupVersionResource: pods, Namespace: "a", LabelSelector: "l=1", FieldSelector: "f=1",
		ShardSelector: shard}); id != want {
		t.Errorf("%+v", id)
	}
	for lookup, want := range map[string]string{"": "f=1", "metadata.name=x": "f=1,metadata.name=x"} {
		check := func(got metav1.ListOptions) {
			want := metav1.ListOptions{LabelSelector: "l=1", FieldSelector: want, ShardSelector: shard, Limit: 7,
				ResourceVersion: "9"}
			if got != want {
				t.Errorf("asked for %+v, want %+v", got, want)
			}
		}
		lw := cache.ToListerWatcherWithContext(reading(nil, checking(check), id))
		asked := metav1.ListOptions{FieldSelector: lookup, Limit: 7, ResourceVersion: "9"}
		_, err := lw.ListWithContext(t.Context(), asked)
		must(t, err)
		_, err = lw.WatchWithContext(t.Context(), asked)
		must(t, err)
	}
}

// checking is a client of pods that passes the options of each request to a function.
type checking func(metav1.ListOptions)

func (c checking) List(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	c(o)
	return nil, nil
}

func (c checking) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	c(o)
	return nil, nil
}

// selectOdd returns a TweakListOptions function that sets selectors, and also options that only the reflector may set.
func selectOdd(calls *int) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		*calls++
		o.LabelSelector, o.FieldSelector = "value=x", "spec.nodeName!=node-2"
		o.ResourceVersion, o.Limit, o.TimeoutSeconds = "0", 33, ptr.To[int64](7)
	}
}

// TestTweakListOptions checks that all options except selectors are ignored.
func TestTweakListOptions(t *testing.T) {
	for _, fl := range flavors {
		t.Run(fl.name, func(t *testing.T) {
			s, c := startServer(t, fakeapi.Options{})
			must(t, s.Load(pods, pod("a", "1", "x"), pod("a", "2", "x"), pod("a", "3", "x"), pod("a", "4", "other")))
			dir, calls := t.TempDir(), 0
			run := func(check func(f subject, h *recorder)) {
				st := openStore(t, dir)
				defer closeStore(t, st)
				o := on(t, st)
				o.TweakListOptions = selectOdd(&calls)
				h, f := &recorder{}, fl.ours(t, c, o)
				reg, stop := f.start(t, pods, h)
				defer stop()
				f.waitSynced(t, reg)
				check(f, h)
				id := collection(t, st, func(entry.Identity) bool { return true }).Identity
				if id.LabelSelector != "value=x" || id.FieldSelector != "spec.nodeName!=node-2" {
					t.Errorf("collection of %s", id)
				}
			}
			run(func(f subject, _ *recorder) {
				equal(t, "lister", f.listed(t, pods), []string{"a/1=x", "a/3=x"})
			})
			if calls != 1 {
				t.Errorf("%d calls of TweakListOptions", calls)
			}
			_, err := s.Update(pods, pod("a", "1", "y"))
			must(t, err)
			s.ResetCounts()
			run(func(_ subject, h *recorder) {
				equal(t, "restart", h.take(), []string{"add a/1=x initial=true", "add a/3=x initial=true", "delete a/1=x"})
			})
			lookups := 0
			for _, r := range s.Log() {
				if r.Resource != "pods" {
					continue
				}
				q := r.Query
				if q.Get("labelSelector") != "value=x" || !strings.HasPrefix(q.Get("fieldSelector"), "spec.nodeName!=node-2") {
					t.Errorf("%s %v", r.Verb, q)
				}
				if q.Get("resourceVersion") == "0" || q.Get("limit") == "33" || q.Get("timeoutSeconds") == "7" {
					t.Errorf("%s %v", r.Verb, q)
				}
				if strings.Contains(q.Get("fieldSelector"), "metadata.name=") {
					lookups++
				}
			}
			wanted, n := 2, s.Counts(pods)
			if fl.name == "typed" { // the typed informer compares metadata, so it looks up no object by name
				wanted = 0
			}
			if lookups != wanted || n.Compares != 1-wanted/2 || n.Lists != 0 {
				t.Errorf("%d look-ups, %+v", lookups, n)
			}
		})
	}
}

func TestBadSelector(t *testing.T) {
	for name, tweak := range map[string]func(*metav1.ListOptions){
		"label selector": func(o *metav1.ListOptions) { o.LabelSelector = "=,=" },
		"field selector": func(o *metav1.ListOptions) { o.FieldSelector = "what" },
		"shard selector": func(o *metav1.ListOptions) { o.ShardSelector = "what" },
	} {
		for _, volatile := range []bool{false, true} {
			c := fakeClients(t)
			st := openStore(t, t.TempDir())
			o := on(t, st)
			o.TweakListOptions, o.Informer.InMemory = tweak, volatile
			var errs []error
			_, err := NewSharedInformerFactory(c.typed, 0, o, &corev1.Pod{})
			errs = append(errs, err)
			for _, fl := range []flavor{dynamicFlavor, metadataFlavor} {
				_, err := fl.ours(t, c, o).informer(pods).AddEventHandler(&recorder{})
				errs = append(errs, err)
			}
			if slices.ContainsFunc(errs, func(err error) bool { return err == nil || !strings.Contains(err.Error(), name) }) {
				t.Errorf("%s, in memory %v: %v", name, volatile, errs)
			}
			closeStore(t, st)
		}
	}
}
