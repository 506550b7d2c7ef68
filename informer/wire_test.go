package informer_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// wire notes how answers came: their type, and whether they were compressed.
type wire struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen []string // guarded by mu
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	if err == nil {
		line := response.Header.Get("Content-Type")
		if response.Uncompressed { // by the transport, which had asked for it
			line += " gzip"
		}
		w.mu.Lock()
		w.seen = append(w.seen, line)
		w.mu.Unlock()
	}
	return response, err
}

// TestOnTheWire: lists come compressed, and in the content type that the client's configuration asks for.
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
		{"", "application/json gzip"}, // what client-go asks for by default
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
