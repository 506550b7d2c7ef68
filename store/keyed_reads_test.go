package store_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/indexer"
	"github.com/larder-dev/larder/store/memory"
)

// keyedReaders runs concurrent readers while write runs. Each reader reads two keys in a fixed order, and the second
// object must never be older than the first.
func keyedReaders(t *testing.T, ix *indexer.Indexer, c store.Interface, first, last string, write func()) {
	t.Helper()
	var stop atomic.Bool
	var readers sync.WaitGroup
	for name, get := range map[string]func(key string) int{
		"GetByKey": func(key string) int {
			obj, _, err := ix.GetByKey(key)
			if err != nil {
				t.Error(err)
				return 0
			}
			rv, _ := strconv.Atoi(rvOf(obj.(*corev1.Pod)))
			return rv
		},
		"Get": func(key string) int {
			obj, err := c.Get(context.Background(), key)
			if err != nil {
				t.Error(err)
				return 0
			}
			rv, _ := strconv.Atoi(rvOf(obj))
			return rv
		},
	} {
		readers.Go(func() {
			for !stop.Load() {
				if a, z := get(first), get(last); z < a {
					t.Errorf("%s: %d, and then %d", name, a, z)
					return
				}
			}
		})
	}
	write()
	stop.Store(true)
	readers.Wait()
}

// TestKeyedReadsDoNotGoBack checks that reads by key never mix a batch or list with older states.
func TestKeyedReadsDoNotGoBack(t *testing.T) {
	t.Parallel()
	const n = 40
	for _, r := range []store.Residency{store.All, store.None} {
		t.Run(r.String(), func(t *testing.T) {
			s := mustOpen(t, t.TempDir()+"/store", store.Options{})
			store.NoSync(s)
			testKeyedReads(t, openAs(t, s, r), n)
			mustClose(t, s)
		})
	}
	t.Run("Memory", func(t *testing.T) {
		m, err := memory.New(pods(), store.CollectionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		testKeyedReads(t, m, n)
	})
}

func testKeyedReads(t *testing.T, c interface {
	store.Interface
	Indexer() *indexer.Indexer
}, n int,
) {
	at := func(rv int) (all []runtime.Object) {
		for i := range n {
			p := podAt(i, fmt.Sprint(rv))
			p.Namespace, p.Annotations = "a", nil
			all = append(all, p)
		}
		return all
	}
	list := func(rv int) {
		w, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		defer w.Abort()
		if _, err := w.Page(t.Context(), at(rv)); err != nil {
			t.Error(err)
		}
		if _, err := w.Commit(t.Context(), entry.Batch{ResourceVersion: fmt.Sprint(rv)}); err != nil {
			t.Error(err)
		}
	}
	list(1)
	keyedReaders(t, c.Indexer(), c, "a/pod-0000", fmt.Sprintf("a/pod-%04d", n-1), func() {
		for rv := 2; rv < soaked(60, 150) && !t.Failed(); rv++ {
			if rv%10 == 0 {
				list(rv)
				continue
			}
			var ops []entry.Op
			for _, obj := range at(rv) {
				ops = append(ops, entry.Op{Object: obj})
			}
			if _, err := c.Apply(t.Context(), entry.Batch{Ops: ops, ResourceVersion: fmt.Sprint(rv)}); err != nil {
				t.Error(err)
			}
		}
	})
}
