package controllerruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

var (
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
	secretKind = corev1.SchemeGroupVersion.WithKind("Secret")
)

// startServer returns an API server with eight pods in the namespaces a to d, two nodes, a deployment, a secret and two
// widgets. UIDs, times and resourceVersions are not random, so all servers have equal objects.
func startServer(t *testing.T) *fakeapi.Server {
	t.Helper()
	srv := fakeapi.New(fakeapi.Options{Resources: []fakeapi.Resource{{
		GroupVersionResource: widgets, Kind: widgetKind.Kind, Singular: "widget", Namespaced: true,
	}}})
	must(t, srv.Start())
	t.Cleanup(srv.Stop)
	for i, ns := range []string{"a", "a", "a", "b", "b", "c", "c", "d"} {
		must(t, srv.Load(pods, newPod(ns, fmt.Sprintf("pod-%d", i), map[string]string{"app": []string{"web", "db"}[i%2]},
			[]string{"node-x", "node-y"}[i/4])))
	}
	for _, name := range []string{"node-x", "node-y"} {
		must(t, srv.Load(nodes, &corev1.Node{ObjectMeta: objectMeta("", name, map[string]string{"app": "web"})}))
	}
	must(t, srv.Load(deployments, &appsv1.Deployment{ObjectMeta: objectMeta("a", "shop", nil),
		Spec: appsv1.DeploymentSpec{Paused: true}}))
	must(t, srv.Load(secrets, &corev1.Secret{ObjectMeta: objectMeta("a", "key", nil),
		Data: map[string][]byte{"k": []byte("v")}}))
	for _, name := range []string{"w-1", "w-2"} {
		w := unstructuredOf(widgetKind)
		w.SetNamespace("a")
		w.SetName(name)
		w.SetUID(types.UID("uid-" + name))
		w.SetCreationTimestamp(metav1.Unix(1_700_000_000, 0))
		w.Object["spec"] = map[string]any{"size": int64(3), "ratio": 0.5, "none": nil, "empty": []any{}}
		must(t, srv.Load(widgets, w))
	}
	return srv
}

func objectMeta(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: labels, UID: types.UID("uid-" + namespace + "-" + name),
		CreationTimestamp: metav1.Unix(1_700_000_000, 0),
		Annotations:       map[string]string{"note": "from " + namespace},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "tests", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`),
		}},
	}
}

func newPod(namespace, name string, labels map[string]string, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: objectMeta(namespace, name, labels),
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

type world struct {
	*testing.T
	srv      *fakeapi.Server
	newCache cache.NewCacheFunc
	cache.Cache

	ctx     context.Context
	cancel  context.CancelFunc
	stopped chan struct{} // stopped is closed when the cache's Start has returned
}

// newWorld returns a world whose cache will be made by newCache. The caller must call create, and may then call run.
func newWorld(t *testing.T, srv *fakeapi.Server, newCache cache.NewCacheFunc) *world {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &world{T: t, srv: srv, newCache: newCache, ctx: ctx}
}

func (w *world) create(opts cache.Options) {
	w.Helper()
	config := w.srv.Config()
	if opts.HTTPClient == nil {
		httpClient, err := rest.HTTPClientFor(config)
		must(w.T, err)
		w.Cleanup(httpClient.CloseIdleConnections)
		opts.HTTPClient = httpClient
	}
	c, err := w.newCache(config, opts)
	must(w.T, err)
	w.Cache = c
}

// run starts the cache and waits until it has synced. The end of the test stops the cache.
func (w *world) run() {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	stopped := make(chan struct{})
	w.cancel, w.stopped = cancel, stopped
	c := w.Cache
	go func() {
		defer close(stopped)
		if err := c.Start(ctx); err != nil {
			w.Error(err)
		}
	}()
	w.Cleanup(w.stop)
	if !c.WaitForCacheSync(w.ctx) {
		w.Fatal("the cache has not synced")
	}
}

func (w *world) stop() {
	w.cancel()
	<-w.stopped
}

func (w *world) eventually(what string, done func() bool) {
	w.Helper()
	for !done() {
		select {
		case <-w.ctx.Done():
			w.Fatalf("waited for: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (w *world) keys(list client.ObjectList, opts ...client.ListOption) string {
	if err := w.List(w.ctx, list, opts...); err != nil {
		return "error: " + err.Error()
	}
	var out []string
	eachItem(w.T, list, func(obj client.Object) { out = append(out, client.ObjectKeyFromObject(obj).String()) })
	slices.Sort(out)
	return fmt.Sprint(out)
}

// dump lists objects from the cache, and returns each object in full as JSON, with its Go type, sorted.
func (w *world) dump(list client.ObjectList, opts ...client.ListOption) (out []string) {
	w.Helper()
	must(w.T, w.List(w.ctx, list, opts...))
	eachItem(w.T, list, func(obj client.Object) { out = append(out, whole(w.T, obj)) })
	slices.Sort(out)
	return append(out, "continue="+list.GetContinue()+" resourceVersion="+list.GetResourceVersion())
}

func whole(t *testing.T, obj any) string {
	t.Helper()
	data, err := json.Marshal(obj)
	must(t, err)
	return fmt.Sprintf("%T %s", obj, data)
}

func eachItem(t *testing.T, list client.ObjectList, fn func(client.Object)) {
	t.Helper()
	must(t, meta.EachListItem(list, func(obj runtime.Object) error {
		fn(obj.(client.Object))
		return nil
	}))
}

type events struct {
	mu    sync.Mutex
	lines []string
}

func (e *events) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
}

func (e *events) OnAdd(obj any, initial bool) { e.note("add %s initial=%t", keyOf(obj), initial) }

func (e *events) OnUpdate(before, after any) {
	e.note("update %s %s to %s", keyOf(after), noteOf(before), noteOf(after))
}

func (e *events) OnDelete(obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		e.note("gone %s last %s", gone.Key, noteOf(gone.Obj))
		return
	}
	e.note("delete %s", keyOf(obj))
}

func keyOf(obj any) string { return client.ObjectKeyFromObject(obj.(client.Object)).String() }

func noteOf(obj any) string { return obj.(client.Object).GetAnnotations()["note"] }

func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() { e.lines = nil }()
	return slices.Sorted(slices.Values(e.lines))
}

func (e *events) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.lines)
}

func annotate(t *testing.T, srv *fakeapi.Server, gvr schema.GroupVersionResource, key, note string) {
	t.Helper()
	for _, obj := range srv.List(gvr) {
		if keyOf(&obj) == key {
			obj.SetAnnotations(map[string]string{"note": note})
			_, err := srv.Update(gvr, &obj)
			must(t, err)
			return
		}
	}
	t.Fatalf("no %s", key)
}

// openStore opens the store file at path. The end of the test checks and closes it, unless closeIt was called before.
func openStore(t *testing.T, path string) (st *store.Store, closeIt func()) {
	t.Helper()
	quiet := logr.Discard()
	st, err := store.Open(path, store.Options{Logger: &quiet})
	must(t, err)
	var once sync.Once
	closeIt = func() {
		once.Do(func() {
			report, err := st.Check(context.Background())
			if err != nil || len(report.Problems) > 0 {
				t.Errorf("Check: %v, %q", err, report.Problems)
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(closeIt)
	return st, closeIt
}

func storePath(t *testing.T) string { return filepath.Join(t.TempDir(), "larder.db") }

func persistent(t *testing.T) cache.NewCacheFunc {
	st, _ := openStore(t, storePath(t))
	return NewCache(on(t, st))
}

// on returns options with the store. One residency is chosen for the whole test run.
func on(t *testing.T, st *store.Store) informer.Options {
	t.Helper()
	return informer.Options{Store: st, Residency: testresidency.Of(t), TransformVersion: informer.Unversioned}
}
