package informer_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// TestListersReturnTheHandlersObjects checks that with residency All handlers, look-ups and lists get the same object,
// as in client-go: after a first list, after an event, and after a restart.
func TestListersReturnTheHandlersObjects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Residency = store.All
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		var mu sync.Mutex
		given := map[string]any{} // given has, by key, the object that the handler received last
		give := func(obj any) {
			mu.Lock()
			defer mu.Unlock()
			key, err := cache.MetaNamespaceKeyFunc(obj)
			if err != nil {
				t.Error(err)
			}
			given[key] = obj
		}
		h := cache.ResourceEventHandlerFuncs{AddFunc: give, UpdateFunc: func(_, obj any) { give(obj) }}
		check := func(when string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			listed := r.i.GetIndexer().List()
			for key, obj := range given {
				got, there, err := r.i.GetIndexer().GetByKey(key)
				if err != nil || !there || got != obj {
					t.Errorf("%s: GetByKey returns another object of %s than the handler got (%v)", when, key, err)
				}
				if !slices.ContainsFunc(listed, func(one any) bool { return one.(runtime.Object) == obj }) {
					t.Errorf("%s: List returns another object of %s than the handler got", when, key)
				}
			}
			if len(given) != 2 || len(listed) != 2 {
				t.Errorf("%s: the handler got %d objects, and %d are listed", when, len(given), len(listed))
			}
		}
		r.start(h)
		check("after the first list")
		r.srv.write("a/1", "y")
		check("after an event")
		r.close()
		clear(given)
		r.start(h)
		check("after a restart")
		r.close()
	})
}
