package report

import (
	"testing"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

func TestGoalMet(t *testing.T) {
	for _, c := range []struct {
		name          string
		goal          scenario.Goal
		larder, ratio float64
		want          bool
		missed        string
	}{
		{"a ratio at its most", scenario.Goal{Limit: 0.5}, 100, 0.5, true, ""},
		{"a ratio above it", scenario.Goal{Limit: 0.5}, 100, 1, false, "2.00× too much"},
		{"a rate at its least", scenario.Goal{Limit: 0.5, AtLeast: true}, 1, 0.5, true, ""},
		{"a rate below it", scenario.Goal{Limit: 0.9, AtLeast: true}, 1, 0.3, false, "3.00× too little"},
		{"a value, whatever the ratio", scenario.Goal{Limit: 2.5, Value: true}, 2.4, 9, true, ""},
		{"a value above its most", scenario.Goal{Limit: 2.5, Value: true}, 5, 0, false, "2.00× too much"},
		{"far above it", scenario.Goal{Limit: 0.01}, 1, 12.34, false, "1,234× too much"},
		{"a rate by itself", scenario.Goal{Limit: 50, Value: true, AtLeast: true}, 25, 9, false, "2.00× too little"},
	} {
		if got := c.goal.Excess(c.larder, c.ratio) <= 1; got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		base := c.larder / c.ratio
		if c.ratio == 0 {
			base = 1
		}
		r := Row{
			Place: Place{Kind: scenario.GoalsFor}, Residency: "All", Larder: Summary{Median: c.larder},
			Reference: &Summary{Median: base}, Metric: scenario.Metric{Goals: []scenario.Goal{c.goal}},
		}
		if r.judge(); r.Missed != c.missed || *r.Met != c.want {
			t.Errorf("%s: %t, %q, want %q", c.name, *r.Met, r.Missed, c.missed)
		}
	}
}
