package serve_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// openUnwatchable opens a collection of n pods at the resourceVersion 11, without a history of changes.
func openUnwatchable(t *testing.T, n int) (*store.Store, *store.Collection, *serve.Handler) {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	c, err := st.Collection(t.Context(), allPods, store.CollectionOptions{Codec: codec.Unstructured(),
		Resource: entry.ResourceInfo{Kind: "Pod", Singular: "pod", Namespaced: true}})
	must(t, err)
	listPods(t, c, n, "11")
	h, err := serve.New(serve.Store(st), serve.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	return st, c, h
}

// TestCollectionWithoutHistory checks that a collection that this process has open without a history of changes can be
// read, that a watch returns kube-apiserver's 405, and that discovery omits the verb watch.
func TestCollectionWithoutHistory(t *testing.T) {
	_, _, h := openUnwatchable(t, 3)
	server := httptest.NewServer(h)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	must(t, err)
	pods := client.CoreV1().Pods("default")
	if list, err := pods.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 3 || list.ResourceVersion != "11" {
		t.Errorf("list: %+v, %v", list, err)
	}
	if list, err := pods.List(t.Context(), metav1.ListOptions{Limit: 2}); err != nil || len(list.Items) != 2 || list.Continue == "" {
		t.Errorf("list with a limit: %+v, %v", list, err)
	} else if rest, err := pods.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: list.Continue}); err != nil || len(rest.Items) != 1 {
		t.Errorf("the rest of the list: %+v, %v", rest, err)
	}
	if p, err := pods.Get(t.Context(), "p0001", metav1.GetOptions{}); err != nil || p.UID != "u1" {
		t.Errorf("get: %+v, %v", p, err)
	}
	seconds, yes := int64(1), true
	for _, o := range []metav1.ListOptions{{ResourceVersion: "11"}, {}, {SendInitialEvents: &yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}} {
		o.TimeoutSeconds = &seconds
		if w, err := pods.Watch(t.Context(), o); !apierrors.IsMethodNotSupported(err) {
			t.Errorf("watch %+v: %v, %v, want 405", o, w, err)
		}
	}
	all, err := client.Discovery().ServerResourcesForGroupVersion("v1")
	must(t, err)
	if verbs := all.APIResources[0].Verbs; verbs.String() != "[get list]" {
		t.Errorf("the verbs are %s", verbs)
	}
}

// TestListOfChangingCollection checks that a list of a collection without a history is cut off if the collection
// changes between two pages, since the pages would show two states.
func TestListOfChangingCollection(t *testing.T) {
	for name, change := range map[string]func(*store.Collection) error{
		"an event": func(c *store.Collection) error { return c.Indexer().Update(podOf(1199, "12")) },
		"a list at the same resourceVersion": func(c *store.Collection) error {
			r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Rewrite: true})
			if err != nil {
				return err
			}
			other := podOf(1199, "11")
			other.SetLabels(map[string]string{"a": "b"})
			if _, err := r.Page(t.Context(), []runtime.Object{other}); err != nil {
				return err
			}
			_, err = r.Commit(t.Context(), entry.Batch{ResourceVersion: "11"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c, h := openUnwatchable(t, 1200)
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
					t.Errorf("the list was not cut off: %v", err)
				}
			}()
			h.ServeHTTP(&onWrite{httptest.NewRecorder(), func() { must(t, change(c)) }},
				httptest.NewRequest("GET", "/api/v1/pods", nil))
		})
	}
}
