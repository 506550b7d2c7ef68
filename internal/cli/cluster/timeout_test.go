package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
)

func TestRequestTimeoutExcludesWatches(t *testing.T) {
	const atMost = 200 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			<-r.Context().Done()
			return
		}
		if got := r.URL.Query().Get("timeout"); got != "" {
			t.Errorf("the server is told to end the watch after %s", got)
		}
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		select {
		case <-time.After(2 * atMost):
			fmt.Fprint(w,
				`{"type":"ADDED","object":{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata",`+
					`"metadata":{"name":"late","namespace":"a","resourceVersion":"2"}}}`+"\n")
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	conn := mustConnect(t, &rest.Config{Host: server.URL, Timeout: atMost})
	for _, representation := range []entry.Representation{entry.Unstructured, entry.Metadata} {
		lw := conn.ListWatch(entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1",
			Resource: "pods"}, Representation: representation})
		w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if e := <-w.ResultChan(); e.Type != watch.Added {
			t.Errorf("%s: %+v", representation, e)
		}
		w.Stop()
		if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("%s: a list that is not answered", representation)
		}
	}
}
