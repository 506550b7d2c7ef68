package scenario

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/larder-dev/larder/bench/internal/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEvery(t *testing.T) {
	for _, c := range []struct {
		step, n int
		want    []int
	}{
		{10, 30, []int{0, 10, 20}},
		{10, 31, []int{0, 10, 20, 30}},
		{100, 1, []int{0}},
	} {
		if got := every(c.step, c.n); !slices.Equal(got, c.want) {
			t.Errorf("every %d of %d: %v, want %v", c.step, c.n, got, c.want)
		}
	}
}

// TestHotObjectsAreSpread checks that the frequently changed objects are spread evenly over all keys. Neighbours would
// share pages of the bbolt file.
func TestHotObjectsAreSpread(t *testing.T) {
	const n = 10_000
	i := slices.IndexFunc(All(), func(s Scenario) bool { return s.Name == "flash" })
	hot := All()[i].Changes(Case{N: n}).Numbers
	if len(hot) != n/100 {
		t.Errorf("%d hot objects, want %d", len(hot), n/100)
	}
	perNamespace := map[string]int{}
	for _, i := range hot {
		perNamespace[load.Namespace(i)]++
	}
	for namespace, count := range perNamespace {
		if count != load.PerNamespace/100 {
			t.Errorf("%d hot objects in %s, want %d", count, namespace, load.PerNamespace/100)
		}
	}
}

// TestKindsOfGoals checks that each goal names a kind of objects that its scenario measures. Otherwise no figure would
// be compared with the goal.
func TestKindsOfGoals(t *testing.T) {
	for _, s := range All() {
		for _, m := range s.Metrics {
			for _, g := range m.Goals {
				if !slices.ContainsFunc(s.Kinds, func(kind string) bool { return g.For(kind, g.Dynamic, g.Each()[0]) }) {
					t.Errorf("%s: the scenario has no %s", s.Name, g.Kind)
				}
			}
		}
	}
}
