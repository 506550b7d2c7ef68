package store

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// TestTableModel: a table is a map, in order, whatever comes and goes, with few keys and with so many that the base is made anew.
func TestTableModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom([]int{5, 3000}).Draw(t, "keys")
		table, model := newTable(), map[string]string{}
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			at, n := rapid.IntRange(0, keys-1).Draw(t, "at"), rapid.IntRange(1, keys).Draw(t, "n")
			remove := rapid.IntRange(0, 2).Draw(t, "remove") == 0
			for i := range n {
				key, value := fmt.Sprintf("%05d", (at+i)%keys), fmt.Sprint(step)
				_, had := model[key]
				if remove {
					if table.remove(key) != had {
						t.Fatalf("remove %s: it was there: %v", key, had)
					}
					delete(model, key)
					continue
				}
				if table.put(key, tableState(value)) == had {
					t.Fatalf("put %s: it was there: %v", key, had)
				}
				model[key] = value
			}
			compareTable(t, table, model, keys)
		}
	})
}

func tableState(value string) *rowState {
	return &rowState{rv: value, obj: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: value}}, terms: map[string][]string{"value": {value}}}
}

func compareTable(t *rapid.T, table *table, model map[string]string, keys int) {
	filed := map[string]int{}
	for i := range keys {
		key := fmt.Sprintf("%05d", i)
		value, has := model[key]
		switch s := table.state(key); {
		case (s != nil) != has || has && s.rv != value:
			t.Fatalf("%s: %+v, want %q", key, s, value)
		case has:
			filed[value]++
		}
	}
	if got := table.keys(); len(got) != len(model) || len(table.list()) != len(model) || table.len() != len(model) {
		t.Fatalf("%d keys, want %d", len(got), len(model))
	}
	if got := table.indexValues("value"); len(got) != len(filed) {
		t.Fatalf("values %q, want %d", got, len(filed))
	}
	for value, n := range filed {
		if got := table.indexKeys("value", value); len(got) != n {
			t.Fatalf("%q files %d, want %d", value, len(got), n)
		}
	}
}

// TestTableReadersWithoutALock read while keys come, change and go: a key that is never removed is always found, and never in an older state.
func TestTableReadersWithoutALock(t *testing.T) {
	table := newTable()
	table.put("stays", tableState("000000"))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			last := ""
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := table.state("stays")
				if s == nil || s.rv < last {
					t.Errorf("%+v after %q", s, last)
					return
				}
				last = s.rv
				table.get("key00700")
			}
		})
	}
	for i := range soaked(6000, 60_000) {
		key := fmt.Sprintf("key%05d", i%1500)
		if i/1500%3 == 2 {
			table.remove(key)
		} else {
			table.put(key, tableState("x"))
		}
		table.put("stays", tableState(fmt.Sprintf("%06d", i)))
	}
	close(stop)
	readers.Wait()
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

// A look-up that has looked into the old base must look into the new one.
func TestTableLoadDuringASettle(t *testing.T) {
	k := newTable()
	k.byKey.between = func() {
		k.byKey.between = nil
		k.byKey.settle()
	}
	k.put("a", tableState("1"))
	if k.get("a") == nil {
		t.Error("a key that is there is not found")
	}
	again := newTable()
	again.put("a", tableState("1"))
	again.byKey.between = func() {
		again.byKey.between = nil
		again.byKey.settle()
	}
	again.put("a", tableState("2"))
	if s := again.state("a"); s.rv != "2" || again.len() != 1 {
		t.Errorf("%d rows, state %s", again.len(), s.rv)
	}
}
