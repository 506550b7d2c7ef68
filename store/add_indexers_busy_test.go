package store_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

// AddIndexers ends although an object changes whenever its function has been called, however it is written.
func TestAddIndexersWhileEveryStateIsOld(t *testing.T) {
	type written interface {
		store.Interface
		AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error
	}
	batches := func(t *testing.T, c written) func(rv int) {
		return func(rv int) {
			if _, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: podAt(0, strconv.Itoa(rv))}}}); err != nil {
				t.Error(err)
			}
		}
	}
	pages := func(t *testing.T, c written) func(rv int) {
		r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return func(rv int) {
			if _, err := r.Page(t.Context(), []runtime.Object{podAt(0, strconv.Itoa(rv))}); err != nil {
				t.Error(err)
			}
		}
	}
	atOnce := store.AtOnce(store.Options{})
	for name, o := range map[string]*store.Options{"Memory": nil, "Late": {}, "AtOnce": &atOnce} {
		for how, by := range map[string]func(*testing.T, written) func(rv int){"Batches": batches, "Pages": pages} {
			t.Run(name+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if o == nil {
						m, err := memory.New(pods(), store.CollectionOptions{})
						if err != nil {
							t.Fatal(err)
						}
						addWhileWritten(t, m, by(t, m))
						return
					}
					s := mustOpen(t, t.TempDir()+"/store", *o)
					store.NoSync(s)
					c := openAs(t, s, store.All)
					addWhileWritten(t, c, by(t, c))
					store.WaitBuilds(c)
					mustClose(t, s)
				})
			})
		}
	}
}

// addWhileWritten calls write, whenever the added function is called, once the last call of it has returned.
func addWhileWritten(t *testing.T, c store.Interface, write func(rv int)) {
	write(2000)
	const enough = 40
	var busy atomic.Bool
	var calls atomic.Int64
	var writers sync.WaitGroup
	fn := func(any) ([]string, error) {
		if n := int(calls.Add(1)); n < enough && busy.CompareAndSwap(false, true) {
			writers.Go(func() {
				defer busy.Store(false)
				write(2000 + n)
			})
			synctest.Wait() // until it is written, or has to wait for us
		}
		return []string{"v"}, nil
	}
	if err := c.AddIndexers(context.Background(), cache.Indexers{"x": fn}, nil); err != nil {
		t.Error(err)
	}
	if n := calls.Load(); n >= enough {
		t.Errorf("the function was called %d times", n)
	}
	synctest.Wait()
	writers.Wait()
	if keys, err := c.IndexKeys(t.Context(), "x", "v"); err != nil || len(keys) != 1 {
		t.Errorf("%q, %v", keys, err)
	}
}
