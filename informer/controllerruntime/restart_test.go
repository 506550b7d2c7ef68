package controllerruntime

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/testresidency"
)

// life simulates one process: a cache on the store file at path, with informers for objs, that stops when fn returns.
func life(
	t *testing.T, srv *fakeapi.Server, path string, o informer.Options, opts cache.Options, objs []client.Object,
	fn func(w *world, seen *events),
) {
	t.Helper()
	st, closeStore := openStore(t, path)
	o.Store, o.Residency = st, testresidency.Of(t)
	w := newWorld(t, srv, NewCache(o))
	w.create(opts)
	var seen events
	for _, obj := range objs {
		inf, err := w.GetInformer(w.ctx, obj)
		must(t, err)
		_, err = inf.AddEventHandler(&seen)
		must(t, err)
	}
	w.run()
	fn(w, &seen)
	w.stop()
	closeStore()
}

// TestRestart checks that a new process with equal cache options lists nothing, for typed, unstructured and metadata
// objects, and for several scopes of the cache. Its handlers receive the stored objects, and the changes and deletes
// since the first process.
func TestRestart(t *testing.T) {
	for name, c := range map[string]struct {
		opts cache.Options
		obj  client.Object
		list client.ObjectList
		want string
	}{
		"structured": {obj: &corev1.Pod{}, list: &corev1.PodList{},
			want: "[a/new a/pod-1 a/pod-2 b/pod-3 b/pod-4 c/pod-5 c/pod-6 d/pod-7]"},
		"unstructured": {obj: unstructuredOf(podKind), list: unstructuredListOf(podKind),
			want: "[a/new a/pod-1 a/pod-2 b/pod-3 b/pod-4 c/pod-5 c/pod-6 d/pod-7]"},
		"metadata": {obj: metadataOf(podKind), list: metadataListOf(podKind),
			want: "[a/new a/pod-1 a/pod-2 b/pod-3 b/pod-4 c/pod-5 c/pod-6 d/pod-7]"},
		"two namespaces": {
			opts: cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}},
			obj:  &corev1.Pod{}, list: &corev1.PodList{}, want: "[a/new a/pod-1 a/pod-2 b/pod-3 b/pod-4]",
		},
		"one namespace and the others": {
			opts: cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, cache.AllNamespaces: {}}},
			obj:  &corev1.Pod{}, list: &corev1.PodList{},
			want: "[a/new a/pod-1 a/pod-2 b/pod-3 b/pod-4 c/pod-5 c/pod-6 d/pod-7]",
		},
		"no watch bookmarks": {
			opts: cache.Options{DefaultEnableWatchBookmarks: ptr(false)},
			obj:  &corev1.Pod{}, list: &corev1.PodList{},
			want: "[a/new a/pod-1 a/pod-2 b/pod-3 b/pod-4 c/pod-5 c/pod-6 d/pod-7]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, path := startServer(t), storePath(t)
			life(t, srv, path, informer.Options{}, c.opts, []client.Object{c.obj}, func(w *world, seen *events) {
				if srv.Counts(pods).Lists == 0 {
					t.Error("nothing was listed in a cold start")
				}
			})
			must(t, srv.Delete(pods, "a", "pod-0"))
			must(t, srv.Load(pods, newPod("a", "new", nil, "node-x")))
			annotate(t, srv, pods, "a/pod-1", "changed")
			if c.opts.DefaultEnableWatchBookmarks == nil {
				// In any cluster another object is written later, so a watch that matches none of the objects above gets a
				// bookmark.
				annotate(t, srv, nodes, "/node-x", "changed")
			}
			srv.ResetCounts()
			life(t, srv, path, informer.Options{}, c.opts, []client.Object{c.obj}, func(w *world, seen *events) {
				if got := w.keys(c.list); got != c.want {
					t.Errorf("listed %s, want %s", got, c.want)
				}
				got := slices.DeleteFunc(seen.take(), func(line string) bool {
					return strings.HasPrefix(line, "add") &&
						!strings.Contains(line, "new")
				})
				want := []string{"add a/new initial=true", "delete a/pod-0", "update a/pod-1 from a to changed"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
			if n := srv.Counts(pods).Lists; n != 0 {
				t.Errorf("%d LISTs after the restart: %q", n, srv.Requests())
			}
			for _, r := range srv.Log() {
				if asked := r.Query.Get("allowWatchBookmarks") != ""; r.Verb == "watch" &&
					asked != (c.opts.DefaultEnableWatchBookmarks == nil) {
					t.Errorf("watch with %v", r.Query)
				}
			}
		})
	}
}

// TestThreeFormsInOneFile checks that three forms of one kind, in two namespaces, are six collections, and that a
// restart with all of them lists nothing.
func TestThreeFormsInOneFile(t *testing.T) {
	srv, path := startServer(t), storePath(t)
	opts := cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}
	objs := []client.Object{&corev1.Pod{}, unstructuredOf(podKind), metadataOf(podKind)}
	dump := func(into *[]string) func(w *world, _ *events) {
		return func(w *world, _ *events) {
			for _, list := range []client.ObjectList{&corev1.PodList{}, unstructuredListOf(podKind), metadataListOf(podKind)} {
				*into = append(*into, w.dump(list)...)
			}
		}
	}
	var before, after []string
	life(t, srv, path, informer.Options{}, opts, objs, dump(&before))
	srv.ResetCounts()
	life(t, srv, path, informer.Options{}, opts, objs, dump(&after))
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if n := srv.Counts(pods).Lists; n != 0 {
		t.Errorf("%d LISTs after the restart", n)
	}
	st, _ := openStore(t, path)
	infos, err := st.Collections(t.Context())
	must(t, err)
	for _, info := range infos {
		r := info.Resource
		if want := map[string]int{"a": 3, "b": 2}[info.Identity.Namespace]; info.Objects != want || r.Kind != "Pod" ||
			r.Singular != "pod" || !r.Namespaced {
			t.Errorf("%s: %d objects, %+v", info.Identity, info.Objects, r)
		}
		if a := info.Attributes; a.ClusterID == "" || a.OpenAPI == "" {
			t.Errorf("%s: %+v", info.Identity, a)
		}
	}
	if len(infos) != 6 {
		t.Errorf("%d collections", len(infos))
	}
}

// TestRemovedAndBack checks that an informer made after RemoveInformer resumes the removed informer's collection, even
// if a handler of the removed informer never returns.
func TestRemovedAndBack(t *testing.T) {
	srv := startServer(t)
	w := newWorld(t, srv, persistent(t))
	w.create(cache.Options{})
	_, err := w.GetInformer(w.ctx, &corev1.Pod{})
	must(t, err)
	w.run()
	srv.ResetCounts()
	release := make(chan struct{})
	defer w.stop()
	defer close(release)
	for range 3 {
		inf, err := w.GetInformer(w.ctx, &corev1.Pod{})
		must(t, err)
		_, err = inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-release }})
		must(t, err)
		if got := w.keys(&corev1.PodList{}, client.InNamespace("b")); got != "[b/pod-3 b/pod-4]" {
			t.Error(got)
		}
		must(t, w.RemoveInformer(w.ctx, &corev1.Pod{}))
	}
	if n := srv.Counts(pods).Lists; n != 0 {
		t.Errorf("%d LISTs after the first", n)
	}
}

// TestLookUpsBesideASelector checks that the cache's own field selector does not replace the field selector of look-ups
// by name, which an informer makes if the server does not support metadata.
func TestLookUpsBesideASelector(t *testing.T) {
	srv, path := startServer(t), storePath(t)
	opts := cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, cache.AllNamespaces: {}}}
	life(t, srv, path, informer.Options{}, opts, []client.Object{&corev1.Pod{}}, func(*world, *events) {})
	annotate(t, srv, pods, "a/pod-0", "changed") // without changes the informer makes no look-ups
	annotate(t, srv, pods, "d/pod-7", "changed")
	annotate(t, srv, nodes, "/node-x", "changed")
	srv.ResetCounts()
	defer srv.InjectFault(fakeapi.Fault{Verb: "compare", Status: http.StatusNotAcceptable, Reason: "NotAcceptable"})()
	life(t, srv, path, informer.Options{}, opts, []client.Object{&corev1.Pod{}}, func(*world, *events) {})
	var lookedUp []string
	for _, r := range srv.Log() {
		if fields := r.Query.Get("fieldSelector"); r.Verb == "probe" && strings.Contains(fields, "metadata.name=") {
			lookedUp = append(lookedUp, r.Path+" "+fields)
		}
	}
	slices.Sort(lookedUp)
	want := []string{}
	for i, ns := range []string{"a", "a", "a"} {
		want = append(want, fmt.Sprintf("/api/v1/namespaces/a/pods metadata.name=pod-%d,metadata.namespace=%s", i, ns))
	}
	for i, ns := range []string{"b", "b", "c", "c", "d"} {
		want = append(want, fmt.Sprintf("/api/v1/pods metadata.namespace!=a,metadata.name=pod-%d,metadata.namespace=%s", i+3,
			ns))
	}
	if diff := cmp.Diff(want, lookedUp); diff != "" {
		t.Error(diff)
	}
}

func TestUndecoded(t *testing.T) {
	objs := []client.Object{&corev1.Pod{}, metadataOf(podKind), unstructuredOf(podKind), metadataOf(widgetKind)}
	life(t, startServer(t), storePath(t), informer.Options{}, cache.Options{}, objs, func(w *world, _ *events) {
		for _, obj := range objs {
			inf, err := w.GetInformer(w.ctx, obj)
			must(t, err)
			if s := inf.(*informer.Informer).Status(); !s.Undecoded {
				t.Errorf("%T: %+v", obj, s)
			}
		}
	})
}

func TestSecrets(t *testing.T) {
	objs := []client.Object{&corev1.Secret{}, metadataOf(secretKind), unstructuredOf(secretKind)}
	for _, persist := range []bool{false, true} {
		srv, path := startServer(t), storePath(t)
		for range 2 {
			srv.ResetCounts()
			life(t, srv, path, informer.Options{PersistSecrets: persist}, cache.Options{}, objs, func(w *world, seen *events) {
				if got := w.keys(&corev1.SecretList{}) + w.keys(metadataListOf(secretKind)); got != "[a/key][a/key]" {
					t.Error(got)
				}
				for _, obj := range objs {
					inf, err := w.GetInformer(w.ctx, obj)
					must(t, err)
					if s := inf.(*informer.Informer).Status(); s.Persistent != persist || !s.Synced {
						t.Errorf("%T: %+v", obj, s)
					}
				}
			})
		}
		if lists := srv.Counts(secrets).Lists; (lists == 0) != persist {
			t.Errorf("PersistSecrets %t: %d LISTs after a restart", persist, lists)
		}
		st, closeStore := openStore(t, path)
		infos, err := st.Collections(t.Context())
		must(t, err)
		if (len(infos) > 0) != persist {
			t.Errorf("PersistSecrets %t: %d collections", persist, len(infos))
		}
		closeStore()
	}
}

func TestTransformVersion(t *testing.T) {
	srv, path := startServer(t), storePath(t)
	for _, version := range []string{"one", "one", "two"} {
		srv.ResetCounts()
		opts := cache.Options{DefaultTransform: stamp(version)}
		life(t, srv, path, informer.Options{TransformVersion: version}, opts, []client.Object{&corev1.Pod{}},
			func(w *world, _ *events) {
				pod := &corev1.Pod{}
				must(t, w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "pod-1"}, pod))
				if pod.Annotations["stamp"] != version {
					t.Errorf("%v after the transform's version became %s", pod.Annotations, version)
				}
			})
	}
	if srv.Counts(pods).Lists == 0 {
		t.Error("not listed")
	}
}

// TestBelowAPath checks an API server behind a proxy with a path prefix, as in Rancher.
func TestBelowAPath(t *testing.T) {
	const prefix = "/k8s/clusters/c-1"
	srv := startServer(t)
	to, err := url.Parse(srv.Config().Host)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	backend := &http.Transport{}
	proxy.Transport = backend
	front := httptest.NewServer(http.StripPrefix(prefix, proxy))
	t.Cleanup(func() { front.CloseClientConnections(); front.Close(); backend.CloseIdleConnections() })

	path := storePath(t)
	for range 2 {
		srv.ResetCounts()
		st, closeStore := openStore(t, path)
		w := newWorld(t, srv, func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
			config.Host = front.URL + prefix
			return NewCache(on(t, st))(config, opts)
		})
		w.create(cache.Options{})
		for _, obj := range []client.Object{&corev1.Pod{}, metadataOf(podKind), unstructuredOf(widgetKind)} {
			_, err := w.GetInformer(w.ctx, obj)
			must(t, err)
		}
		w.run()
		if got := w.keys(&corev1.PodList{}, client.InNamespace("b")) +
			w.keys(unstructuredListOf(widgetKind)); got != "[b/pod-3 b/pod-4][a/w-1 a/w-2]" {
			t.Error(got)
		}
		w.stop()
		infos, err := st.Collections(t.Context())
		must(t, err)
		for _, info := range infos {
			if info.Attributes.ClusterID == "" || info.Attributes.OpenAPI == "" {
				t.Errorf("%s: %+v", info.Identity, info.Attributes)
			}
		}
		closeStore()
	}
	if n := srv.Counts(pods).Lists; n != 0 {
		t.Errorf("%d LISTs after a restart", n)
	}
}

func TestWatchErrors(t *testing.T) {
	srv := startServer(t)
	errs := make(chan error, 100)
	w := newWorld(t, srv, persistent(t))
	w.create(cache.Options{DefaultWatchErrorHandler: func(_ context.Context, r *toolscache.Reflector, err error) {
		if r == nil || r.TypeDescription() == "" {
			t.Error("the handler got no reflector")
		}
		errs <- err
	}})
	_, err := w.GetInformer(w.ctx, &corev1.Pod{})
	must(t, err)
	w.run()
	srv.ResetCounts()
	srv.BreakWatches(pods, fakeapi.BreakReset)
	select {
	case err := <-errs:
		if err == nil {
			t.Error("no error")
		}
	case <-w.ctx.Done():
		t.Fatal("the handler was not called")
	}
	must(t, srv.Load(pods, newPod("e", "late", nil, "")))
	w.eventually("the next pod", func() bool { return w.keys(&corev1.PodList{}, client.InNamespace("e")) != "[]" })
	if n := srv.Counts(pods).Lists; n != 0 {
		t.Errorf("%d LISTs after a connection was reset", n)
	}
}

// TestListsDoNotAddUp checks that repeated lists into one object contain each object once
// (kubernetes-sigs/controller-runtime#3194).
func TestListsDoNotAddUp(t *testing.T) {
	srv, path := startServer(t), storePath(t)
	opts := cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}
	for range 2 {
		life(t, srv, path, informer.Options{}, opts, []client.Object{&corev1.Pod{}}, func(w *world, _ *events) {
			var list corev1.PodList
			for range 3 {
				must(t, w.List(w.ctx, &list))
				if len(list.Items) != 5 {
					t.Errorf("%d pods, want 5", len(list.Items))
				}
			}
		})
	}
}
