package factory

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestRestartListsNothing checks the typed, dynamic and metadata factories on one store and one resource. After a
// restart handlers receive the stored objects and the changes since, and no factory lists.
func TestRestartListsNothing(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(pods, pod("a", "1", "x"), pod("a", "2", "x"), pod("b", "1", "x")))
	dir := t.TempDir()
	run := func(check func(name string, f subject, h *recorder)) {
		st := openStore(t, dir)
		defer closeStore(t, st)
		for _, fl := range flavors {
			h := &recorder{}
			f := fl.ours(t, c, on(t, st))
			reg, stop := f.start(t, pods, h)
			defer stop()
			f.waitSynced(t, reg)
			check(fl.name, f, h)
		}
	}

	run(func(name string, f subject, h *recorder) {
		equal(t, name+": cold start", h.take(), []string{"add a/1=x initial=true", "add a/2=x initial=true",
			"add b/1=x initial=true"})
	})
	if got := s.Counts(pods); got.Lists != len(flavors) {
		t.Errorf("cold start: %d LISTs", got.Lists)
	}

	_, err := s.Update(pods, pod("a", "1", "y"))
	must(t, err)
	must(t, s.Delete(pods, "a", "2"))
	must(t, s.Load(pods, pod("c", "1", "x")))
	s.ResetCounts()
	run(func(name string, f subject, h *recorder) {
		equal(t, name+": restart", h.take(), []string{
			"add a/1=x initial=true", "add a/2=x initial=true", "add b/1=x initial=true",
			"update a/1=x to a/1=y", "delete a/2=x", "add c/1=x initial=true",
		})
		equal(t, name+": lister", f.listed(t, pods), []string{"a/1=y", "b/1=x", "c/1=x"})
		l := f.forResource(pods).Lister()
		if obj, err := l.ByNamespace("b").Get("1"); err != nil || describe(obj) != "b/1=x" {
			t.Errorf("%s: got %v, %v", name, obj, err)
		}
		if !cache.IsDone(f.informer(pods).HasSyncedChecker()) {
			t.Errorf("%s: not synced", name)
		}
	})
	if got := s.Counts(pods); got.Lists != 0 || got.Watches == 0 {
		t.Errorf("restart: %+v", got)
	}
}

// TestPrune checks that Store.Prune drops only collections that no factory has opened, even while informers run. Issue
// 39.
func TestPrune(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(pods, pod("a", "1", "x")))
	dir := t.TempDir()
	run := func(prune bool, types ...runtime.Object) (stored []string) {
		st := openStore(t, dir)
		defer closeStore(t, st)
		for _, fl := range flavors {
			f := fl.ours(t, c, on(t, st), types...)
			reg, stop := f.start(t, pods, &recorder{})
			defer stop()
			f.waitSynced(t, reg)
			if len(types) > 1 {
				f.informer(configMaps)
			}
		}
		if prune {
			must(t, st.Prune(t.Context()))
		}
		infos, err := st.Collections(t.Context())
		must(t, err)
		for _, info := range infos {
			stored = append(stored, info.Identity.Resource)
		}
		slices.Sort(stored)
		return stored
	}
	equal(t, "with two types", run(true, &corev1.Pod{}, &corev1.ConfigMap{}),
		[]string{"configmaps", "configmaps", "configmaps", "pods", "pods", "pods"})
	s.ResetCounts()
	equal(t, "with one", run(true, &corev1.Pod{}), []string{"pods", "pods", "pods"})
	run(false, &corev1.Pod{})
	if got := s.Counts(pods); got.Lists != 0 {
		t.Errorf("%d lists of what was not dropped", got.Lists)
	}
}

// TestAttributes checks what is stored about a collection: the cluster's id, the schema's hash, and the kind if it is
// known.
func TestAttributes(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(pods, pod("a", "1", "x")))
	s.SetOpenAPIHash(pods.GroupVersion(), "HASH")
	kubeSystem := ""
	for _, ns := range s.List(namespaces) {
		if ns.GetName() == "kube-system" {
			kubeSystem = string(ns.GetUID())
		}
	}
	st := openStore(t, t.TempDir())
	defer closeStore(t, st)
	for _, fl := range flavors {
		o := on(t, st)
		if fl.name != "typed" { // the typed factory takes the REST client from its clientset
			o.RESTClient = c.typed.CoreV1().RESTClient()
		}
		f := fl.ours(t, c, o)
		reg, stop := f.start(t, pods, &recorder{})
		f.waitSynced(t, reg)
		stop()
	}
	for form, want := range map[entry.Representation]entry.Info{
		entry.Typed: {
			Attributes: entry.Attributes{ClusterID: kubeSystem, OpenAPI: "HASH"},
			Resource:   entry.ResourceInfo{Kind: "Pod", Namespaced: true},
		},
		// Informers of unstructured objects and metadata do not know the kind. The keys show whether it is namespaced.
		entry.Unstructured: {Attributes: entry.Attributes{ClusterID: kubeSystem, OpenAPI: "HASH"},
			Resource: entry.ResourceInfo{Namespaced: true}},
		entry.Metadata: {Attributes: entry.Attributes{ClusterID: kubeSystem},
			Resource: entry.ResourceInfo{Namespaced: true}},
	} {
		got := collection(t, st, func(id entry.Identity) bool { return id.Representation == form })
		if got.Attributes.ClusterID != want.Attributes.ClusterID || got.Attributes.OpenAPI != want.Attributes.OpenAPI {
			t.Errorf("%s: attributes %+v, want %+v", form, got.Attributes, want.Attributes)
		}
		if got.Resource.Kind != want.Resource.Kind || got.Resource.Namespaced != want.Resource.Namespaced {
			t.Errorf("%s: resource %+v, want %+v", form, got.Resource, want.Resource)
		}
	}
}

// TestMetadataByACachedHash cites issue 37: the informers of a factory share the schema's hash for some minutes. An
// expired watch must lead to a list of whole objects although the shared hash is from before the schema's change.
func TestMetadataByACachedHash(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	large := pod("a", "1", "x")
	large.Spec.NodeSelector = map[string]string{"large": strings.Repeat("x", 32<<10)}
	must(t, s.Load(pods, large))
	st := openStore(t, t.TempDir())
	defer closeStore(t, st)
	f := typedFlavor.ours(t, c, on(t, st))
	reg, stop := f.start(t, pods, &recorder{})
	defer stop()
	f.waitSynced(t, reg)
	s.SetOpenAPIHash(pods.GroupVersion(), "CHANGED")
	must(t, s.Load(configMaps, &corev1.ConfigMap{ObjectMeta: metaOf("a", "1", "x")}))
	s.Compact()
	info := func() entry.Info {
		return collection(t, st, func(id entry.Identity) bool { return id.Resource == pods.Resource })
	}
	before := info()
	s.BreakWatches(pods, fakeapi.BreakEOF)
	for ctx := testContext(t); info().ResourceVersion == before.ResourceVersion; time.Sleep(10 * time.Millisecond) {
		must(t, ctx.Err())
	}
	if after := info().Attributes.OpenAPI; before.Attributes.OpenAPI == "" || after != "CHANGED" {
		t.Errorf("listed with the schema %q, then with %q", before.Attributes.OpenAPI, after)
	}
}

func TestOffline(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(pods, pod("a", "1", "x")))
	dir := t.TempDir()
	for _, what := range []string{"cold start", "offline"} {
		st := openStore(t, dir)
		for _, fl := range flavors {
			o := on(t, st)
			o.Informer.SyncPolicy = informer.Disk
			f := fl.ours(t, c, o)
			reg, stop := f.start(t, pods, &recorder{})
			f.waitSynced(t, reg)
			equal(t, fl.name+", "+what, f.listed(t, pods), []string{"a/1=x"})
			stop()
		}
		closeStore(t, st)
		s.Stop()
	}
}

func TestNotAllowedToReadTheCluster(t *testing.T) {
	s, c := startServer(t, fakeapi.Options{})
	must(t, s.Load(pods, pod("a", "1", "x")))
	s.InjectFault(fakeapi.Fault{Verb: "get", Status: 403, Reason: "Forbidden"})
	st := openStore(t, t.TempDir())
	defer closeStore(t, st)
	for _, fl := range flavors {
		f := fl.ours(t, c, on(t, st))
		reg, stop := f.start(t, pods, &recorder{})
		f.waitSynced(t, reg)
		equal(t, fl.name, f.listed(t, pods), []string{"a/1=x"})
		stop()
	}
	all, err := st.Collections(t.Context())
	must(t, err)
	for _, info := range all {
		if info.Attributes.ClusterID != "" || !info.Complete {
			t.Errorf("%s: %+v", info.Identity, info)
		}
	}
}

func TestCustomResource(t *testing.T) {
	widgets := fakeapi.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Singular: "widget", Namespaced: true,
	}
	s, c := startServer(t, fakeapi.Options{Resources: []fakeapi.Resource{widgets}})
	want, err := s.Create(widgets.GroupVersionResource, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "a", "name": "1"},
		"spec": map[string]any{"size": int64(3), "ratio": 0.5, "nothing": nil, "empty": []any{}},
	}})
	must(t, err)
	dir := t.TempDir()
	for range 2 {
		st := openStore(t, dir)
		for _, fl := range []flavor{dynamicFlavor, metadataFlavor} {
			f := fl.ours(t, c, on(t, st))
			reg, stop := f.start(t, widgets.GroupVersionResource, &recorder{})
			f.waitSynced(t, reg)
			got, err := f.forResource(widgets.GroupVersionResource).Lister().Get("a/1")
			must(t, err)
			if u, ok := got.(*unstructured.Unstructured); ok && !reflect.DeepEqual(u.Object, want.Object) {
				t.Errorf("%s: got %v, want %v", fl.name, u.Object, want.Object)
			} else if m, _ := meta.Accessor(got); m.GetUID() != want.GetUID() {
				t.Errorf("%s: got %v, want %v", fl.name, got, want)
			}
			stop()
		}
		closeStore(t, st)
	}
	if got := s.Counts(widgets.GroupVersionResource).Lists; got != 2 {
		t.Errorf("%d LISTs", got)
	}
}
