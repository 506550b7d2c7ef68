package report

import (
	"strings"
	"testing"

	"github.com/larder-dev/larder/bench/internal/stat"
)

// What is compared with fewer objects is measured with both numbers.
func TestCommandOfGrowth(t *testing.T) {
	rows := Build(samples(), Goals, Command{Runs: 5, Quick: true, Embedded: true})
	const want = "go -C bench run . -only restart -pods 10000,100000 -configmaps 0 -widgets 0 -runs 5 -quick -embedded"
	if r := find(t, rows, "restart/synced_disk", againstFewer, 100_000); r.Command != want {
		t.Errorf("%q, want %q", r.Command, want)
	}
	if r := find(t, rows, "restart/synced_disk", "", 100_000); r.Command != strings.Replace(want, "10000,", "", 1) {
		t.Errorf("%q", r.Command)
	}
}

// A median of fewer runs than were asked for is not to pass for one of all.
func TestRunsThatWereNotAskedFor(t *testing.T) {
	reference := 2.0
	r := Row{Unit: "s", Command: Command{Runs: 5}.Of("restart", GoalsFor, 10), Reference: &reference, Against: "raw"}
	for _, c := range []struct {
		s    stat.Summary
		want string
	}{
		{stat.Summary{Runs: 5, Median: 2, Min: 2, Max: 2}, "2.00 s"},
		{stat.Summary{Runs: 5, Median: 2, Min: 1, Max: 3}, "2.00 s (1.00 s – 3.00 s)"},
		{stat.Summary{Runs: 4, Median: 2, Min: 1, Max: 3}, "2.00 s (1.00 s – 3.00 s, of 4 runs)"},
		{stat.Summary{Runs: 1, Median: 2, Min: 2, Max: 2}, "2.00 s (of 1 run)"},
		{stat.Summary{Runs: 9, Median: 2, Min: 2, Max: 2}, "2.00 s (of 9 runs)"},
	} {
		if got := r.spread(&c.s); got != c.want {
			t.Errorf("%+v: %q, want %q", c.s, got, c.want)
		}
	}
	r.Spread.Reference = &stat.Summary{Runs: 4}
	if got, want := r.other(), "2.00 s, raw (of 4 runs)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
