package reflector_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector"
)

type counted struct {
	reflector.Sink
	began, pages, items, synced atomic.Int32
}

func (c *counted) Checkpoint(context.Context) (reflector.Checkpoint, error) {
	return reflector.Checkpoint{}, nil
}
func (c *counted) BeginReplace(context.Context, reflector.Reason) error { c.began.Add(1); return nil }
func (c *counted) Page(_ context.Context, items []runtime.Object) error {
	c.pages.Add(1)
	c.items.Add(int32(len(items)))
	return nil
}
func (c *counted) EndReplace(context.Context, string) error                             { return nil }
func (c *counted) AbortReplace(context.Context) error                                   { return nil }
func (c *counted) Synced(context.Context) error                                         { c.synced.Add(1); return nil }
func (c *counted) Bookmark(context.Context, string) error                               { return nil }
func (c *counted) Event(context.Context, watch.EventType, runtime.Object, string) error { return nil }

// TestAnswerIsNoList checks that an answer without items (from a proxy, say) is an error that names its kind, and
// deletes nothing. kubernetes#132926, issue 38. An answer with items is a list of any kind: custom resources have their
// own listKind.
func TestAnswerIsNoList(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		// items is the number of items; -1 if the answer is not a list.
		items int32
	}{
		"a table":             {`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"rows":[]}`, -1},
		"a status":            {`{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"9"},"status":"Success"}`, -1},
		"an object":           {`{"kind":"Widget","apiVersion":"g/v1","metadata":{"name":"a","resourceVersion":"9"}}`, -1},
		"an object of a kind": {`{"kind":"WidgetList","apiVersion":"g/v1","metadata":{"name":"a","resourceVersion":"9"}}`, -1},
		"an empty list":       {`{"kind":"WidgetList","apiVersion":"g/v1","metadata":{"resourceVersion":"9"},"items":[]}`, 0},
		"an empty list, null": {`{"kind":"WidgetList","apiVersion":"g/v1","metadata":{"resourceVersion":"9"},"items":null}`, 0},
		"an empty list, kind": {`{"kind":"WidgetSet","apiVersion":"g/v1","metadata":{"resourceVersion":"9"},"items":[]}`, 0},
		"a list of a kind": {`{"kind":"WidgetSet","apiVersion":"g/v1","metadata":{"resourceVersion":"9"},"items":[
			{"kind":"Widget","apiVersion":"g/v1","metadata":{"name":"a","uid":"u","resourceVersion":"5"}}]}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Query().Get("watch") != "" {
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
					<-r.Context().Done()
					return
				}
				_, _ = w.Write([]byte(tt.body))
			}))
			defer api.Close()
			defer api.CloseClientConnections()
			client := dynamic.NewForConfigOrDie(&rest.Config{Host: api.URL})
			widgets := client.Resource(schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "widgets"})
			lw := &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					return widgets.List(ctx, o)
				},
				WatchFuncWithContext: widgets.Watch,
			}
			sink, failed := &counted{}, make(chan error, 100)
			r := reflector.New(lw, sink, reflector.Options{OnError: func(_ context.Context, err error) { failed <- err }})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			if tt.items < 0 {
				var err error
				select {
				case err = <-failed:
				case <-ctx.Done():
					err = ctx.Err()
				}
				if !strings.Contains(err.Error(), "is no list: it has no items, but of the kind") {
					t.Errorf("error %v", err)
				}
			} else {
				for sink.synced.Load() == 0 && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if tt.items < 0 && (sink.began.Load() != 0 || sink.synced.Load() != 0) {
				t.Errorf("%d lists began", sink.began.Load())
			}
			if tt.items >= 0 && (sink.items.Load() != tt.items || sink.synced.Load() == 0) {
				t.Errorf("%d items, synced %d times", sink.items.Load(), sink.synced.Load())
			}
		})
	}
}
