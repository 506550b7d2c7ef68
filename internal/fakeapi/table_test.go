package fakeapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTableAgainstAMap compares the states of a table, at every resourceVersion in its history, with a map.
func TestTableAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Options{StartRV: 1, History: rapid.IntRange(1, 40).Draw(t, "history")})
		table := s.tables[podsGVR]
		model := map[string]uint64{}
		past := map[uint64]map[string]uint64{s.rv: {}}
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for range steps {
			namespace := rapid.SampledFrom([]string{"zz", "zz-x", "zz0"}).Draw(t, "namespace")
			name := rapid.SampledFrom([]string{"a", "b", "a-b", "a.b"}).Draw(t, "name")
			key := namespace + "/" + name
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if err := s.Delete(podsGVR, namespace, name); (err == nil) != (model[key] != 0) {
					t.Fatalf("delete %s: %v", key, err)
				}
				delete(model, key)
			case 1:
				compareState(t, "now", table.ordered(), model)
			default:
				obj := pod(namespace, name, map[string]string{"step": fmt.Sprint(s.rv)})
				var err error
				if model[key] == 0 {
					err = s.Load(podsGVR, obj)
				} else {
					_, err = s.Update(podsGVR, obj)
				}
				if err != nil {
					t.Fatal(err)
				}
				model[key] = s.rv
			}
			past[s.rv] = maps.Clone(model)
		}
		for rv, state := range past {
			if rv >= s.oldestLocked(table) {
				compareState(t, fmt.Sprint("at ", rv), table.at(rv), state)
			}
		}
	})
}

func compareState(t *rapid.T, what string, got []*object, want map[string]uint64) {
	t.Helper()
	var a, b []string
	for _, o := range got {
		a = append(a, fmt.Sprintf("%s %d", o.key, o.rv))
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		b = append(b, fmt.Sprintf("%s %d", key, want[key]))
	}
	if !slices.Equal(a, b) {
		t.Fatalf("%s: %s, not %s", what, strings.Join(a, ", "), strings.Join(b, ", "))
	}
}
