package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

func TestGoalMet(t *testing.T) {
	for _, c := range []struct {
		name          string
		goal          Goal
		larder, ratio float64
		want          bool
		missed        string
	}{
		{"a ratio at its most", Goal{Limit: 0.5}, 100, 0.5, true, ""},
		{"a ratio above it", Goal{Limit: 0.5}, 100, 1, false, "2.00× too much"},
		{"a rate at its least", Goal{Limit: 0.9, AtLeast: true}, 1, 0.9, true, ""},
		{"a rate below it", Goal{Limit: 0.9, AtLeast: true}, 1, 0.3, false, "3.00× too little"},
		{"a value, whatever the ratio", Goal{Limit: 2.5, Value: true}, 2.4, 9, true, ""},
		{"a value above its most", Goal{Limit: 2.5, Value: true}, 5, 0, false, "2.00× too much"},
		{"far above it", Goal{Limit: 0.01}, 1, 12.34, false, "1,234× too much"},
		{"a rate by itself", Goal{Limit: 50, Value: true, AtLeast: true}, 25, 9, false, "2.00× too little"},
	} {
		if got := c.goal.Met(c.larder, c.ratio); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		if c.want {
			continue
		}
		if got := c.goal.Missed(c.larder, c.ratio); got != c.missed {
			t.Errorf("%s: %q, want %q", c.name, got, c.missed)
		}
	}
}

// A goal whose metric is misspelt would never be compared with anything.
func TestEveryGoalHasItsMetric(t *testing.T) {
	for _, g := range Goals {
		name, key, _ := strings.Cut(g.Metric, "/")
		s, known := scenario.Find(name)
		if !known {
			t.Errorf("%s: there is no such scenario", g.Metric)
			continue
		}
		if !slices.Contains(s.Kinds, g.kind()) {
			t.Errorf("%s: the scenario has no %s", g.Metric, g.kind())
		}
		found := g.Against == againstFewer || g.Against == againstNothing
		for _, m := range s.Metrics {
			found = found || m.Key == key && m.Against == g.Against
		}
		if !found {
			t.Errorf("%s against %q: there is no such metric", g.Metric, g.Against)
		}
	}
}
