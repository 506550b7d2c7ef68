package serve_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

var allPods = entry.Identity{GroupVersionResource: podsResource, Representation: entry.Unstructured}

func openPods(t *testing.T, st *store.Store) *store.Collection {
	t.Helper()
	c, err := st.Collection(t.Context(), allPods, store.CollectionOptions{Codec: codec.Unstructured(), History: 1 << 20,
		Resource: entry.ResourceInfo{Kind: "Pod", Singular: "pod", Namespaced: true}})
	must(t, err)
	return c
}

func podOf(n int, rv string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": "default", "name": fmt.Sprintf("p%04d", n), "uid": fmt.Sprint("u", n),
			"resourceVersion": rv, "annotations": map[string]any{"x": strings.Repeat("x", 1000)}}}}
}

func listPods(t *testing.T, c *store.Collection, n int, rv string) {
	t.Helper()
	var all []any
	for i := range n {
		all = append(all, podOf(i, rv))
	}
	must(t, c.Indexer().Replace(all, rv))
}

// TestWatchOfAClosedCollectionEnds checks that a running watch ends with 410 when this process closes or opens its
// collection, as when an informer is replaced, and that lists return 429 until it is open again (issue 37).
func TestWatchOfAClosedCollectionEnds(t *testing.T) {
	for name, test := range map[string]struct {
		// closed is true if the watch begins while the collection is closed.
		closed bool
		change func(*testing.T, *store.Store, *store.Collection)
	}{
		"the collection is closed": {false, func(t *testing.T, _ *store.Store, c *store.Collection) { must(t, c.Close()) }},
		"the store is closed":      {false, func(t *testing.T, st *store.Store, _ *store.Collection) { must(t, st.Close()) }},
		"it is replaced": {false, func(t *testing.T, st *store.Store, c *store.Collection) {
			must(t, c.Close())
			listPods(t, openPods(t, st), 2, "12")
		}},
		"it is opened": {true, func(t *testing.T, st *store.Store, _ *store.Collection) { openPods(t, st) }},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
			must(t, err)
			defer st.Close()
			c := openPods(t, st)
			listPods(t, c, 1, "11")
			if test.closed {
				must(t, c.Close())
			}
			h, err := serve.New(serve.Store(st), serve.Options{})
			must(t, err)
			defer h.Close()
			server := httptest.NewServer(h)
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
			must(t, err)
			seconds := int64(20)
			w, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "11",
				TimeoutSeconds: &seconds})
			must(t, err)
			defer w.Stop()
			test.change(t, st, c)
			e, ok := <-w.ResultChan()
			if err := apierrors.FromObject(e.Object); !ok || e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
				t.Errorf("the watch got %v %v (%t), want 410", e.Type, err, ok)
			}
		})
	}
}

type onWrite struct {
	*httptest.ResponseRecorder
	do func()
}

func (w *onWrite) Write(data []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return w.ResponseRecorder.Write(data)
}

// TestListOfAnOpenedCollectionEnds checks that a list of a closed collection is cut off if the collection is opened
// between two pages, since it may have changed.
func TestListOfAnOpenedCollectionEnds(t *testing.T) {
	for name, closed := range map[string]bool{"and is open": false, "and is closed again": true} {
		t.Run(name, func(t *testing.T) {
			st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
			must(t, err)
			defer st.Close()
			c := openPods(t, st)
			listPods(t, c, 1200, "11")
			must(t, c.Close())
			h, err := serve.New(serve.Store(st), serve.Options{})
			must(t, err)
			defer h.Close()
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
					t.Errorf("the list was not cut off: %v", err)
				}
			}()
			h.ServeHTTP(&onWrite{httptest.NewRecorder(), func() {
				c := openPods(t, st)
				listPods(t, c, 1200, "12")
				if closed {
					must(t, c.Close())
				}
			}}, httptest.NewRequest("GET", "/api/v1/pods", nil))
		})
	}
}
