package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

// Merge returns an earlier record with what newer has measured in place of what it had of the same scenarios, kinds and numbers.
func Merge(earlier, newer Run, goals []Goal) Run {
	again := map[place]bool{}
	for _, r := range newer.Rows {
		again[r.place()] = true
	}
	rows := slices.Clone(newer.Rows)
	for _, r := range earlier.Rows {
		if !again[r.place()] {
			rows = append(rows, r)
		}
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Against == againstFewer })
	slices.SortStableFunc(rows, byPlace)
	merged := earlier
	merged.Rows = append(rows, growth(rows)...)
	Judge(merged.Rows, goals)
	merged.Command = both(earlier.Command, newer.Command, "; ")
	merged.Server = both(earlier.Server, newer.Server, ", ")
	merged.Commit = both(earlier.Commit, newer.Commit, ", ")
	return merged
}

// place is where a row's figures were measured, typed or dynamic.
func (r Row) place() place {
	name, _, _ := strings.Cut(r.Metric, "/")
	return place{scenario: name, kind: r.Kind, n: r.N}
}

// kinds in the order in which they are measured.
var kinds = []string{GoalsFor, "configmaps", "widgets"}

// byPlace is the order of Build: typed and dynamic rows, and those of one metric, stay as they are.
func byPlace(a, b Row) int {
	return cmp.Or(
		cmp.Compare(slices.IndexFunc(scenario.All(), a.of), slices.IndexFunc(scenario.All(), b.of)),
		cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
		cmp.Compare(a.N, b.N),
	)
}

func (r Row) of(s scenario.Scenario) bool { return r.place().scenario == s.Name }

// both names what two records say, once where it is the same.
func both(a, b, sep string) string {
	if slices.Contains(strings.Split(a, sep), b) {
		return a
	}
	return a + sep + b
}
