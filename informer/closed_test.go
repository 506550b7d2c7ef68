package informer_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// TestReadsOfAClosedStore checks that reads of a closed store do not silently return nothing. Issue 37.
func TestReadsOfAClosedStore(t *testing.T) {
	for _, residency := range []store.Residency{store.All, store.None} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.o.Residency = residency
			r.o.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
			r.srv.write("a/1", "x")
			i := r.start()
			r.stop()
			indexer := i.GetIndexer()
			if _, found, err := indexer.GetByKey("a/1"); !found || err != nil {
				t.Errorf("the run has ended, and the store is open: %v, %v", found, err)
			}
			if err := r.st.Close(); err != nil {
				t.Fatal(err)
			}
			_, _, byKey := indexer.GetByKey("a/1")
			_, byObject := indexer.Index(cache.NamespaceIndex, &metav1.ObjectMeta{Namespace: "a"})
			_, byIndex := indexer.ByIndex(cache.NamespaceIndex, "a")
			_, reader := i.Reader().Get(t.Context(), "a/1")
			for what, err := range map[string]error{"GetByKey": byKey, "Index": byObject, "ByIndex": byIndex, "Get": reader} {
				if !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), r.path) ||
					!strings.Contains(err.Error(), "close it last") {
					t.Errorf("%v: %s: %v", residency, what, err)
				}
			}
			if n, keys := len(indexer.List()), len(indexer.ListKeys()); residency == store.All && (n != 1 || keys != 1) {
				t.Errorf("%v: %d objects, %d keys", residency, n, keys)
			}
			if err := i.Status().Err; !errors.Is(err, store.ErrClosed) {
				t.Errorf("%v: %v", residency, err)
			}
		})
	}
}

// TestFailingIndexFunction checks that Status.Err reports an object that an index lacks until the object has changed or
// is deleted. Issue 37.
func TestFailingIndexFunction(t *testing.T) {
	fails := cache.Indexers{"value": func(obj any) ([]string, error) {
		if value := obj.(*corev1.Pod).Labels["value"]; value != "bad" {
			return []string{value}, nil
		}
		return nil, errors.New("from the test")
	}}
	changes := []func(*server){func(s *server) { s.write("a/1", "good") }, func(s *server) { s.delete("a/1") }}
	for _, inMemory := range []bool{false, true} {
		for _, change := range changes {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.InMemory = inMemory
				r.srv.write("a/1", "bad")
				r.srv.write("a/2", "good")
				i := r.start()
				if err := i.Status().Err; err != nil {
					t.Error(err)
				}
				if err := i.AddIndexers(fails); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if err := i.Status().Err; err == nil || !strings.Contains(err.Error(), `index "value": from the test`) {
					t.Errorf("a stored object: %v", err)
				}
				r.srv.write("a/2", "also good")
				synctest.Wait()
				if err := i.Status().Err; err == nil {
					t.Error("another object has changed, and there is no error")
				}
				change(r.srv)
				synctest.Wait()
				if err := i.Status().Err; err != nil {
					t.Errorf("the object has changed: %v", err)
				}
				r.close()
			})
		}
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.o.InMemory, r.o.Indexers = inMemory, fails
			r.srv.write("a/1", "good")
			i := r.start()
			r.srv.write("a/1", "bad")
			synctest.Wait()
			if err := i.Status().Err; err == nil || !strings.Contains(err.Error(), "a/1") {
				t.Errorf("an event: %v", err)
			}
			r.srv.write("a/1", "good")
			synctest.Wait()
			if err := i.Status().Err; err != nil {
				t.Errorf("after the next event: %v", err)
			}
			r.close()
		})
	}
}
