package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

// wire is an http.RoundTripper that collects the content types of answers, and whether they were compressed.
type wire struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen []string // seen has the content type of each answer, with "gzip" if the answer was compressed
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	if err == nil {
		line := response.Header.Get("Content-Type")
		if response.Uncompressed { // the HTTP transport requested compression, and has decompressed the answer
			line += " gzip"
		}
		w.mu.Lock()
		w.seen = append(w.seen, line)
		w.mu.Unlock()
	}
	return response, err
}

func TestOnTheWire(t *testing.T) {
	api := fakeapi.New(fakeapi.Options{})
	if err := api.Start(); err != nil {
		t.Fatal(err)
	}
	defer api.Stop()
	for n := range 100 {
		must(t)(api.Create(podsResource, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("p%02d", n),
			Annotations: map[string]string{"big": strings.Repeat("x", 4<<10)},
		}}))
	}
	for _, tt := range []struct{ contentType, want string }{
		{"", "application/json gzip"},
		{runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf + " gzip"},
	} {
		config := rest.CopyConfig(api.Config())
		config.ContentType = tt.contentType
		w := &wire{}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { w.next = next; return w })
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		rc := client.CoreV1().RESTClient()
		id := entry.Identity{GroupVersionResource: podsResource}
		for name, lw := range map[string]cache.ListerWatcherWithContext{
			"ListWatch": requests.ListWatch(rc, id),
			"client-go": cache.NewFilteredListWatchFromClient(rc, "pods", metav1.NamespaceAll, func(*metav1.ListOptions) {}),
		} {
			w.seen = nil
			must(t)(lw.ListWithContext(t.Context(), metav1.ListOptions{Limit: 2000}))
			if !slices.Equal(w.seen, []string{tt.want}) {
				t.Errorf("%s with content type %q: %q, want %q", name, tt.contentType, w.seen, tt.want)
			}
		}
		rc.(*rest.RESTClient).Client.CloseIdleConnections()
	}
}

// TestProtobufOfAnotherProgram checks unstructured objects that another program has stored as protobuf. A program whose
// codec reads them resumes. A program with another codec lists them.
func TestProtobufOfAnotherProgram(t *testing.T) {
	api := fakeapi.New(fakeapi.Options{})
	if err := api.Start(); err != nil {
		t.Fatal(err)
	}
	defer api.Stop()
	for n := range 30 {
		must(t)(api.Create(podsResource, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("p%02d", n), Labels: map[string]string{"app": "web"},
		}}))
	}
	config := rest.CopyConfig(api.Config())
	config.ContentType = runtime.ContentTypeProtobuf
	client := value(kubernetes.NewForConfig(config))(t).CoreV1().RESTClient()
	defer client.(*rest.RESTClient).Client.CloseIdleConnections()
	objects := value(dynamic.NewForConfig(api.Config()))(t)
	id := entry.Identity{GroupVersionResource: podsResource, Representation: entry.Unstructured}
	path := filepath.Join(t.TempDir(), "larder.db")
	run := func(lw cache.ListerWatcher, c codec.Codec) (i *informer.Informer, stop func()) {
		t.Helper()
		st := value(store.Open(path, store.Options{}))(t)
		i = value(informer.New(lw, &unstructured.Unstructured{}, informer.Options{
			Store: st, Identity: id, Codec: c, Residency: store.None,
		}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { i.RunWithContext(ctx) })
		if !cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
			t.Fatal("it has not synced")
		}
		return i, func() {
			cancel()
			done.Wait()
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	both := codec.UnstructuredWith(scheme.Scheme)
	i, stop := run(requests.ListWatch(client, id), both)
	if got := i.GetStore().ListKeys(); len(got) != 30 {
		t.Errorf("%d keys", len(got))
	}
	stop()
	i, stop = run(requests.ListWatch(client, id), both)
	if lists := i.Status().Reflector.Lists; lists != 0 {
		t.Errorf("the same program has listed %d times", lists)
	}
	stop()
	i, stop = run(requests.ClientListWatch(objects.Resource(podsResource), id), nil)
	defer stop()
	deadline := time.Now().Add(20 * time.Second)
	for {
		list := i.GetStore().List()
		if len(list) == 30 && list[0].(*unstructured.Unstructured).GetLabels()["app"] == "web" && i.Status().Err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d objects, %v, %+v", len(list), i.Status().Err, i.Status().Reflector.Relists)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func value[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
