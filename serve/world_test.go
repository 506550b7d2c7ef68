package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

var podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// world is an API server, a mirror of its pods, and a server that serves the mirror.
type world struct {
	t        *testing.T
	upstream *fakeapi.Server
	admin    kubernetes.Interface
	path     string
	also     []entry.Identity
	// history is the size in bytes of the mirror's history of changes.
	history int
	// link wraps the mirror's transport; may be nil.
	link func(http.RoundTripper) http.RoundTripper

	store  *store.Store
	server *httptest.Server
	config *rest.Config
	close  func()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, done func() bool, what func() string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(what())
		}
	}
}

// newWorld starts an API server, a mirror of its pods, and a server of the mirror. edit may change the identity of the
// mirrored collection, and the options of the server.
func newWorld(t *testing.T, edit func(*entry.Identity, *serve.Options)) *world {
	t.Helper()
	return newWorldWith(t, 1<<20, edit)
}

func newWorldWith(t *testing.T, history int, edit func(*entry.Identity, *serve.Options)) *world {
	t.Helper()
	w := newUpstream(t, history)
	w.start(edit)
	t.Cleanup(func() { w.close() })
	return w
}

func newUpstream(t *testing.T, history int) *world {
	t.Helper()
	w := &world{t: t, upstream: fakeapi.New(fakeapi.Options{}), path: filepath.Join(t.TempDir(), "mirror.db"),
		history: history}
	must(t, w.upstream.Start())
	t.Cleanup(w.upstream.Stop)
	admin, err := kubernetes.NewForConfig(w.upstream.Config())
	must(t, err)
	w.admin = admin
	return w
}

func (w *world) start(edit func(*entry.Identity, *serve.Options)) {
	w.t.Helper()
	st, err := store.Open(w.path, store.Options{})
	must(w.t, err)
	id := entry.Identity{GroupVersionResource: podsResource, Representation: entry.Unstructured}
	o := serve.Options{}
	if edit != nil {
		edit(&id, &o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, id := range append([]entry.Identity{id}, w.also...) {
		inf := w.mirror(st, id)
		wg.Go(func() { inf.RunWithContext(ctx) })
		eventually(w.t, inf.HasSynced, func() string { return "the mirror does not sync" })
	}
	h, err := serve.New(serve.Store(st), o)
	must(w.t, err)
	w.store, w.server = st, httptest.NewServer(h)
	w.config = &rest.Config{Host: w.server.URL, QPS: -1}
	w.close = func() {
		must(w.t, h.Close())
		w.server.Close()
		cancel()
		wg.Wait()
		must(w.t, st.Close())
	}
}

func (w *world) mirror(st *store.Store, id entry.Identity) *informer.Informer {
	w.t.Helper()
	config := w.upstream.Config()
	config.WrapTransport = w.link
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType
	config.GroupVersion, config.APIPath = &schema.GroupVersion{Version: "v1"}, "/api"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	must(w.t, err)
	example := &unstructured.Unstructured{}
	example.SetAPIVersion("v1")
	example.SetKind("Pod")
	inf, err := informer.New(requests.ListWatch(client, id), example, informer.Options{
		Store: st, Identity: id, Residency: store.None, History: w.history, Codec: codec.UnstructuredWith(scheme.Scheme),
		Resource: entry.ResourceInfo{Kind: "Pod", Singular: "pod", ShortNames: []string{"po"}, Namespaced: true},
	})
	must(w.t, err)
	must(w.t, inf.Durable().RetainChanges(w.t.Context(), time.Hour))
	return inf
}

func (w *world) client() kubernetes.Interface {
	w.t.Helper()
	c, err := kubernetes.NewForConfig(w.config)
	must(w.t, err)
	return c
}

func newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name[:1]}},
		Spec: corev1.PodSpec{NodeName: "node-" + name[len(name)-1:],
			Containers: []corev1.Container{{Name: "c", Image: "example.com/" + name}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func (w *world) create(pods ...*corev1.Pod) {
	w.t.Helper()
	for _, p := range pods {
		_, err := w.admin.CoreV1().Pods(p.Namespace).Create(w.t.Context(), p, metav1.CreateOptions{})
		must(w.t, err)
	}
}

func (w *world) fill(n int) {
	w.t.Helper()
	for i := range n {
		w.create(newPod([]string{"a", "b"}[i%2], fmt.Sprintf("p%03d", i)))
	}
	w.caughtUp()
}

func (w *world) caughtUp() {
	w.t.Helper()
	list, err := w.admin.CoreV1().Pods("").List(w.t.Context(), metav1.ListOptions{})
	must(w.t, err)
	_, err = w.client().CoreV1().Pods("").List(w.t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	must(w.t, err)
}
