package engine_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/store/internal/engine"
)

// write returns a write of a pod with this value in the index named "value". An empty value makes it a delete.
func write(key, value string) *engine.Write {
	return &engine.Write{Key: key, RV: value, Del: value == "",
		Obj: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: value}}, Terms: map[string][]string{"value": {value}}}
}

func TestTableModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom([]int{5, 3000}).Draw(t, "keys")
		table, model := engine.NewResidentTable(), map[string]string{}
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			at, n := rapid.IntRange(0, keys-1).Draw(t, "at"), rapid.IntRange(1, keys).Draw(t, "n")
			value := fmt.Sprint(step)
			if rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				value = ""
			}
			var batch []*engine.Write
			for i := range n {
				batch = append(batch, write(fmt.Sprintf("%05d", (at+i)%keys), value))
			}
			table.Apply(batch)
			for _, x := range batch {
				if delete(model, x.Key); !x.Del {
					model[x.Key] = x.RV
				}
			}
			compareTable(t, table, model, keys)
		}
	})
}

func compareTable(t *rapid.T, table *engine.ResidentTable, model map[string]string, keys int) {
	var present []string
	filed := map[string][]string{}
	for i := range keys {
		key := fmt.Sprintf("%05d", i)
		value, has := model[key]
		s, obj := table.State(key), table.Get(key)
		if (s != nil) != has || (obj != nil) != has || has && (s.RV != value || obj.(*corev1.Pod).Name != value) {
			t.Fatalf("%s: %+v, %v, want %q", key, s, obj, value)
		}
		if has {
			present, filed[value] = append(present, key), append(filed[value], key)
		}
	}
	if got := table.Keys(); !slices.Equal(got, present) || len(table.List()) != len(model) || table.Len() != len(model) {
		t.Fatalf("%d keys, want %d", len(got), len(model))
	}
	if got := table.IndexValues("value"); len(got) != len(filed) {
		t.Fatalf("values %q, want %d", got, len(filed))
	}
	for value, want := range filed {
		if got := table.IndexKeys("value", value); !slices.Equal(got, want) {
			t.Fatalf("%q files %q, want %q", value, got, want)
		}
	}
}

// TestTableReaders checks that a lock-free reader by key sees whole batches: once it has seen the new object of one
// key, it never sees the old object of another key in the same batch.
func TestTableReaders(t *testing.T) {
	batch := func(n int) (all []*engine.Write) {
		for key := range 100 {
			all = append(all, write(fmt.Sprintf("%02d", key), fmt.Sprintf("%06d", n)))
		}
		return all
	}
	for name, table := range map[string]interface {
		Apply(last []*engine.Write)
		State(key string) *engine.ResidentObject
	}{"Table": engine.NewResidentTable(), "All": engine.NewResidents()} {
		t.Run(name, func(t *testing.T) {
			table.Apply(batch(0))
			var stop atomic.Bool
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					for !stop.Load() {
						first, last := table.State("00"), table.State("99")
						if last.RV < first.RV {
							t.Errorf("%s after %s", last.RV, first.RV)
							return
						}
					}
				})
			}
			for n := range 1000 {
				table.Apply(batch(n))
			}
			stop.Store(true)
			readers.Wait()
		})
	}
}
