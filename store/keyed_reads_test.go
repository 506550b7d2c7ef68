package store

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Nobody reads by key while some of the keys of a batch, or of a list, have been changed.
func TestNoKeyedReadAmidABatch(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", Options{})
	c := openAs(t, s, All)
	mustList(t, c, 10)
	m, err := NewMemory(pods(), CollectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		to Interface
		ix *Indexer
		in *table
		mu *sync.RWMutex
	}{
		"All":    {c, c.Indexer(), c.resident.Load().table, &c.resident.Load().mu},
		"Memory": {m, m.Indexer(), m.table, &m.mu},
	} {
		t.Run(name, func(t *testing.T) {
			apply := func(ops ...Op) {
				t.Helper()
				if _, err := test.to.Apply(t.Context(), Batch{Ops: ops}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 10 {
				apply(Op{Object: somePod(i)})
			}
			test.in.byKey.settle()
			asked := 0
			test.in.byKey.between = func() { // when the new key is looked for, while the lock is held
				if rvOf(test.in.get("namespace-0/pod-0000")) != "2001" {
					return // the batch is still being prepared
				}
				asked++
				locked := !test.mu.TryRLock()
				if !locked {
					test.mu.RUnlock()
				}
				if test.ix.hot.Load() == nil && locked {
					return
				}
				t.Errorf("who has read pod 0 at 2001 reads pod 1 at %s", rvOf(test.in.get("namespace-1/pod-0001")))
			}
			apply(Op{Object: podAt(0, "2001")}, Op{Object: podAt(11, "2002")}, Op{Object: podAt(1, "2003")})
			test.in.byKey.between = nil
			if asked == 0 || test.ix.hot.Load() == nil {
				t.Errorf("asked %d times; reads by key are fast again: %t", asked, test.ix.hot.Load() != nil)
			}
			if obj, _, _ := test.ix.GetByKey("namespace-1/pod-0001"); rvOf(obj.(*corev1.Pod)) != "2003" {
				t.Errorf("pod 1 at %s", rvOf(obj.(*corev1.Pod)))
			}
		})
	}
	mustClose(t, s)
}

// keyedReaders read one key and then another, which is never older, while write runs.
func keyedReaders(t *testing.T, ix *Indexer, c Interface, first, last string, write func()) {
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

// Whoever has read an object of a batch, or of a list, reads none that is older.
func TestKeyedReadsDoNotGoBack(t *testing.T) {
	t.Parallel()
	const n = 40
	for _, r := range []Residency{All, Bounded(64 << 20), None} {
		t.Run(r.String(), func(t *testing.T) {
			s := mustOpen(t, t.TempDir()+"/store", Options{})
			NoSync(s)
			testKeyedReads(t, openAs(t, s, r), n)
			mustClose(t, s)
		})
	}
	t.Run("Memory", func(t *testing.T) {
		m, err := NewMemory(pods(), CollectionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		testKeyedReads(t, m, n)
	})
}

func testKeyedReads(t *testing.T, c interface {
	Interface
	Indexer() *Indexer
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
		w, err := c.BeginReplace(t.Context(), ReplaceOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		defer w.Abort()
		if _, err := w.Page(t.Context(), at(rv)); err != nil {
			t.Error(err)
		}
		if _, err := w.Commit(t.Context(), Batch{ResourceVersion: fmt.Sprint(rv)}); err != nil {
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
			var ops []Op
			for _, obj := range at(rv) {
				ops = append(ops, Op{Object: obj})
			}
			if _, err := c.Apply(t.Context(), Batch{Ops: ops, ResourceVersion: fmt.Sprint(rv)}); err != nil {
				t.Error(err)
			}
		}
	})
}
