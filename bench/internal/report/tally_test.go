package report

import (
	"testing"

	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// TestTally checks that a goal is met only if the rows of all its residencies meet it.
func TestTally(t *testing.T) {
	const all, none = subject.All, subject.None
	synced, received := scenario.Metric{Key: "synced", Goals: []scenario.Goal{{}}}, scenario.Metric{Key: "bytes"}
	received.Goals = []scenario.Goal{{Residencies: []string{none}}}
	cold := scenario.Scenario{Name: "cold", Metrics: []scenario.Metric{synced, received}}
	row := func(m scenario.Metric, residency string, n int, met bool) Row {
		place := Place{Scenario: "cold", Kind: scenario.GoalsFor, N: n}
		return Row{Place: place, Metric: m, Residency: residency, Goal: "a goal", Met: &met}
	}
	both := func(last bool) []Row {
		return []Row{row(synced, all, 10, true), row(synced, none, 10, last)}
	}
	for _, c := range []struct {
		name string
		rows []Row
		want tally
	}{
		{"nothing", nil, tally{notMeasured: 2}},
		{"met with every residency", both(true), tally{met: 1, notMeasured: 1}},
		{"missed with one", both(false), tally{missed: 1, notMeasured: 1}},
		{"not measured with one", both(true)[:1], tally{notMeasured: 2}},
		{"missed with one, not measured with another", both(false)[1:], tally{missed: 1, notMeasured: 1}},
		{"the one that it is for", []Row{row(received, none, 10, true)}, tally{met: 1, notMeasured: 1}},
		{
			"another than it is for",
			[]Row{row(received, none, 10, true), row(received, all, 10, false)}, tally{met: 1, notMeasured: 1},
		},
		{
			"fewer objects do not count",
			append(both(true), row(received, none, 5, true)), tally{met: 1, notMeasured: 1},
		},
	} {
		if got := tallyOf(c.rows, []scenario.Scenario{cold}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	synced.Goals = append(synced.Goals, scenario.Goal{Kind: "widgets", Residencies: []string{none}})
	cold.Metrics = []scenario.Metric{synced, received}
	more := row(synced, none, 100, true)
	more.Kind = "widgets"
	mixed := append(both(true), more)
	if got, want := tallyOf(mixed, []scenario.Scenario{cold}), (tally{met: 2, notMeasured: 1}); got != want {
		t.Errorf("with ten times as many objects of another kind: %+v, want %+v", got, want)
	}
	if got, want := judged(mixed), "10 pods, 100 widgets"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (tally{17, 6, 9}).String(), "Of 32 goals 17 are met, 6 missed, 9 not measured"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
