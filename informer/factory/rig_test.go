package factory

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

var (
	pods       = corev1.SchemeGroupVersion.WithResource("pods")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	nodes      = corev1.SchemeGroupVersion.WithResource("nodes")
)

var quiet = logr.Discard()

// metaOf returns an object's metadata. The label value distinguishes the states of the object.
func metaOf(namespace, name, value string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"value": value}}
}

func pod(namespace, name, value string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metaOf(namespace, name, value),
		Spec: corev1.PodSpec{NodeName: "node-" + name},
	}
}

func describe(obj any) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Sprintf("%T", obj)
	}
	return fmt.Sprintf("%s=%s", cache.MetaObjectToName(m), m.GetLabels()["value"])
}

type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *recorder) OnAdd(obj any, initial bool) { r.note("add %s initial=%v", describe(obj), initial) }
func (r *recorder) OnUpdate(old, obj any)       { r.note("update %s to %s", describe(old), describe(obj)) }
func (r *recorder) OnDelete(obj any)            { r.note("delete %s", describe(obj)) }

// take returns the calls since the last take.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.lines = nil }()
	return r.lines
}

type clients struct {
	typed    kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

// factory has the methods that the typed, dynamic and metadata factories share.
type factory interface {
	Start(stopCh <-chan struct{})
	Shutdown()
}

// flavor is the typed, dynamic or metadata factory, with constructors of Larder's and of client-go's.
type flavor struct {
	name  string
	ours  func(t *testing.T, c clients, o Options, types ...runtime.Object) subject
	stock func(c clients, o Options) subject
}

type subject struct {
	factory
	forResource func(schema.GroupVersionResource) informers.GenericInformer
	// synced calls the factory's WaitForCacheSync, and returns the results without their keys.
	synced func(stopCh <-chan struct{}) []bool
}

var flavors = []flavor{typedFlavor, dynamicFlavor, metadataFlavor}

func (s subject) informer(gvr schema.GroupVersionResource) cache.SharedIndexInformer {
	return s.forResource(gvr).Informer()
}

func (s subject) listed(t *testing.T, gvr schema.GroupVersionResource) []string {
	t.Helper()
	return listed(t, s.forResource(gvr).Lister())
}

func listed(t *testing.T, l cache.GenericLister) (all []string) {
	t.Helper()
	objs, err := l.List(labels.Everything())
	if err != nil {
		t.Errorf("list: %v", err)
	}
	for _, obj := range objs {
		all = append(all, describe(obj))
	}
	slices.Sort(all)
	return all
}

func (s subject) start(
	t *testing.T, gvr schema.GroupVersionResource, h cache.ResourceEventHandler,
) (reg cache.ResourceEventHandlerRegistration, stop func()) {
	t.Helper()
	reg, err := s.informer(gvr).AddEventHandler(h)
	if err != nil {
		t.Fatal(err)
	}
	stopCh := make(chan struct{})
	s.Start(stopCh)
	return reg, func() {
		close(stopCh)
		s.Shutdown()
	}
}

func (s subject) waitSynced(t *testing.T, reg cache.ResourceEventHandlerRegistration) {
	t.Helper()
	ctx := testContext(t)
	if synced := s.synced(ctx.Done()); len(synced) == 0 || slices.Contains(synced, false) {
		t.Fatalf("WaitForCacheSync: %v", synced)
	}
	if !cache.WaitFor(ctx, "", reg.HasSyncedChecker()) {
		t.Fatal("the handler has not synced")
	}
}

// testContext returns a context that ends before the test's deadline, so that a hang is reported at its line.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func startServer(t *testing.T, o fakeapi.Options) (*fakeapi.Server, clients) {
	t.Helper()
	s := fakeapi.New(o)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s, clientsOf(t, s)
}

func clientsOf(t *testing.T, s *fakeapi.Server) clients {
	t.Helper()
	config := s.Config()
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	var c clients
	c.typed, err = kubernetes.NewForConfigAndClient(config, httpClient)
	must(t, err)
	c.dynamic, err = dynamic.NewForConfigAndClient(config, httpClient)
	must(t, err)
	c.metadata, err = metadata.NewForConfigAndClient(config, httpClient)
	must(t, err)
	return c
}

func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(filepath.Join(dir, "larder.db"), store.Options{Logger: &quiet})
	must(t, err)
	return st
}

func closeStore(t *testing.T, st *store.Store) {
	t.Helper()
	report, err := st.Check(context.Background())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check: %v, %q", err, report.Problems)
	}
	must(t, st.Close())
}

// on returns options with the store. One residency is chosen for the whole test run.
func on(t *testing.T, st *store.Store) Options {
	t.Helper()
	return Options{Informer: informer.Options{Store: st, Logger: &quiet, Residency: testresidency.Of(t)}}
}

func inMemory() Options {
	return Options{Informer: informer.Options{InMemory: true, Logger: &quiet}}
}

// collection returns the stored Info of the one collection for whose identity the function is returns true.
func collection(t *testing.T, st *store.Store, is func(entry.Identity) bool) entry.Info {
	t.Helper()
	all, err := st.Collections(t.Context())
	must(t, err)
	at := slices.IndexFunc(all, func(i entry.Info) bool { return is(i.Identity) })
	if at < 0 {
		t.Fatalf("no such collection among %v", all)
	}
	return all[at]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
