package resident

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestTableModel: a table is a map, in order, whatever comes and goes, with few keys and with so many that the base is
// made anew.
func TestTableModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom([]int{5, 3000}).Draw(t, "keys")
		table, model := NewTable(), map[string]string{}
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			at, n := rapid.IntRange(0, keys-1).Draw(t, "at"), rapid.IntRange(1, keys).Draw(t, "n")
			remove := rapid.IntRange(0, 2).Draw(t, "remove") == 0
			for i := range n {
				key, value := fmt.Sprintf("%05d", (at+i)%keys), fmt.Sprint(step)
				_, had := model[key]
				if remove {
					if table.Remove(key) != had {
						t.Fatalf("remove %s: it was there: %v", key, had)
					}
					delete(model, key)
					continue
				}
				if table.Put(key, tableState(value)) == had {
					t.Fatalf("put %s: it was there: %v", key, had)
				}
				model[key] = value
			}
			compareTable(t, table, model, keys)
		}
	})
}

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
	table := NewTable()
	table.Put("stays", tableState("000000"))
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
			table.Remove(key)
		} else {
			table.Put(key, tableState("x"))
		}
		table.Put("stays", tableState(fmt.Sprintf("%06d", i)))
	}
	close(stop)
	readers.Wait()
}

// What is computed of a table is kept for the states that it has now.
func TestMoreTermsForgetOldStates(t *testing.T) {
	termsOf := func(any) map[string][]string { return map[string][]string{"x": {"v"}} }
	table := NewTable()
	rows := func() (rows []*Row) {
		table.Each("", func(e *Row) bool {
			rows = append(rows, e)
			return true
		})
		return rows
	}
	var terms MoreTerms
	for i := range 10 {
		table.Put("a", tableState(fmt.Sprint(i)))
		table.Put("b", tableState("1"))
		terms = terms.Of(termsOf, rows())
	}
	if len(terms) != 2 || !table.AddTerms([]string{"x"}, terms) {
		t.Errorf("terms of %d states", len(terms))
	}
}

// A look-up that has looked into the old base must look into the new one.
func TestTableLoadDuringASettle(t *testing.T) {
	k := NewTable()
	k.ByKey.Between = func() {
		k.ByKey.Between = nil
		k.ByKey.Settle()
	}
	k.Put("a", tableState("1"))
	if k.Get("a") == nil {
		t.Error("a key that is there is not found")
	}
	again := NewTable()
	again.Put("a", tableState("1"))
	again.ByKey.Between = func() {
		again.ByKey.Between = nil
		again.ByKey.Settle()
	}
	again.Put("a", tableState("2"))
	if s := again.State("a"); s.RV != "2" || again.Len() != 1 {
		t.Errorf("%d rows, state %s", again.Len(), s.RV)
	}
}
