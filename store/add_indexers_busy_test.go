package store

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// AddIndexers ends although an object changes whenever its function has been called, however it is written.
func TestAddIndexersWhileEveryStateIsOld(t *testing.T) {
	type written interface {
		Interface
		AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error
	}
	batches := func(t *testing.T, c written) func(rv int) {
		return func(rv int) {
			if _, err := c.Apply(t.Context(), Batch{Ops: []Op{{Object: podAt(0, strconv.Itoa(rv))}}}); err != nil {
				t.Error(err)
			}
		}
	}
	pages := func(t *testing.T, c written) func(rv int) {
		r, err := c.BeginReplace(t.Context(), ReplaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return func(rv int) {
			if _, err := r.Page(t.Context(), []runtime.Object{podAt(0, strconv.Itoa(rv))}); err != nil {
				t.Error(err)
			}
		}
	}
	for name, o := range map[string]*Options{"Memory": nil, "Late": {}, "AtOnce": {CommitInterval: -1}} {
		for how, by := range map[string]func(*testing.T, written) func(rv int){"Batches": batches, "Pages": pages} {
			t.Run(name+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if o == nil {
						m, err := NewMemory(pods(), CollectionOptions{})
						if err != nil {
							t.Fatal(err)
						}
						addWhileWritten(t, m, by(t, m))
						return
					}
					s := mustOpen(t, t.TempDir()+"/store", *o)
					NoSync(s)
					c := openAs(t, s, All)
					addWhileWritten(t, c, by(t, c))
					c.builds.running.Wait()
					mustClose(t, s)
				})
			})
		}
	}
}

// addWhileWritten calls write, whenever the added function is called, once the last call of it has returned.
func addWhileWritten(t *testing.T, c Interface, write func(rv int)) {
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

// What is computed of a table is kept for the states that it has now.
func TestMoreTermsForgetOldStates(t *testing.T) {
	set, err := newIndexSet(cache.Indexers{"x": func(any) ([]string, error) { return []string{"v"}, nil }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	table := newTable()
	rows := func() (rows []*row) {
		table.each("", func(e *row) bool {
			rows = append(rows, e)
			return true
		})
		return rows
	}
	var terms moreTerms
	for i := range 10 {
		table.put("a", tableState(fmt.Sprint(i)))
		table.put("b", tableState("1"))
		terms = terms.of(set, rows())
	}
	if len(terms) != 2 || !table.addTerms(set, terms) {
		t.Errorf("terms of %d states", len(terms))
	}
}
