package resident

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/store/internal/memtable"
)

// TestTableModel: a table is a map, in order, whatever comes and goes, with few keys and with so many that the base is
// made anew.
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

func newTable() *Table { return NewTable(new(atomic.Pointer[KeyMap])) }

func tableState(value string) *State {
	return &State{RV: value, Obj: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: value}},
		Terms: map[string][]string{"value": {value}}}
}

func compareTable(t *rapid.T, table *Table, model map[string]string, keys int) {
	filed := map[string]int{}
	for i := range keys {
		key := fmt.Sprintf("%05d", i)
		value, has := model[key]
		switch s := table.State(key); {
		case (s != nil) != has || has && s.RV != value:
			t.Fatalf("%s: %+v, want %q", key, s, value)
		case has:
			filed[value]++
		}
	}
	if got := table.Keys(); len(got) != len(model) || len(table.List()) != len(model) || table.Len() != len(model) {
		t.Fatalf("%d keys, want %d", len(got), len(model))
	}
	if got := table.IndexValues("value"); len(got) != len(filed) {
		t.Fatalf("values %q, want %d", got, len(filed))
	}
	for value, n := range filed {
		if got := table.IndexKeys("value", value); len(got) != n {
			t.Fatalf("%q files %d, want %d", value, len(got), n)
		}
	}
}

// TestTableReadersWithoutALock read while keys come, change and go: a key that is never removed is always found, and
// never in an older state.
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
				s := table.State("stays")
				if s == nil || s.RV < last {
					t.Errorf("%+v after %q", s, last)
					return
				}
				last = s.RV
				table.Get("key00700")
			}
		})
	}
	for i := range 6000 {
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
	termsOf := func(string, any) map[string][]string { return map[string][]string{"x": {"v"}} }
	table := newTable()
	var terms MoreTerms
	for i := range 10 {
		table.put("a", tableState(fmt.Sprint(i)))
		table.put("b", tableState("1"))
		terms = table.MoreTerms(termsOf, terms)
	}
	if len(terms) != 2 || !table.AddTerms([]string{"x"}, terms) {
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
	if k.Get("a") == nil {
		t.Error("a key that is there is not found")
	}
	again := newTable()
	again.put("a", tableState("1"))
	again.byKey.between = func() {
		again.byKey.between = nil
		again.byKey.settle()
	}
	again.put("a", tableState("2"))
	if s := again.State("a"); s.RV != "2" || again.Len() != 1 {
		t.Errorf("%d rows, state %s", again.Len(), s.RV)
	}
}

// Nobody reads by key while some of the keys of a batch have been changed.
func TestNoKeyedReadAmidABatch(t *testing.T) {
	var keyed atomic.Pointer[KeyMap]
	all := NewAll(&keyed)
	all.Open()
	for name, test := range map[string]struct {
		table *Table
		apply func([]*memtable.Write)
	}{
		"All":   {all.Table, all.Apply},
		"Table": {newTable(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			table, apply := test.table, test.apply
			if apply == nil {
				apply = table.Apply
			}
			write := func(key, rv string) *memtable.Write {
				return &memtable.Write{Key: key, RV: rv, Obj: tableState(rv).Obj}
			}
			apply([]*memtable.Write{write("a", "1"), write("b", "1")})
			table.byKey.settle()
			asked := 0
			table.byKey.between = func() { // when the new key is looked for, while the lock is held
				asked++
				locked := !table.mu.TryRLock()
				if !locked {
					table.mu.RUnlock()
				}
				if table.State("a").RV != "2" || table.State("b").RV != "1" || table.keyed.Load() != nil || !locked {
					t.Errorf("a at %s, b at %s, by key: %v, locked: %t", table.State("a").RV, table.State("b").RV,
						table.keyed.Load(), locked)
				}
			}
			apply([]*memtable.Write{write("a", "2"), write("new", "2"), write("b", "2")})
			table.byKey.between = nil
			if asked == 0 || table.keyed.Load() == nil {
				t.Errorf("asked %d times; reads by key are fast again: %t", asked, table.keyed.Load() != nil)
			}
			if table.State("b").RV != "2" {
				t.Errorf("b at %s", table.State("b").RV)
			}
		})
	}
}
