package report

import "testing"

// A goal is that of all the rows for whose residencies it is.
func TestTally(t *testing.T) {
	goals := []Goal{{Metric: "cold/synced"}, {Metric: "cold/bytes", Residencies: []string{none}}}
	row := func(metric, residency string, n int, met bool) Row {
		return Row{Metric: metric, Kind: GoalsFor, Residency: residency, N: n, Goal: "a goal", Met: &met}
	}
	three := func(last bool) []Row {
		return []Row{row("cold/synced", all, 10, true), row("cold/synced", bounded, 10, true), row("cold/synced", none, 10, last)}
	}
	for _, c := range []struct {
		name string
		rows []Row
		want Tally
	}{
		{"nothing", nil, Tally{NotMeasured: 2}},
		{"met with every residency", three(true), Tally{Met: 1, NotMeasured: 1}},
		{"missed with one", three(false), Tally{Missed: 1, NotMeasured: 1}},
		{"not measured with one", three(true)[:2], Tally{NotMeasured: 2}},
		{"missed with one, not measured with another", three(false)[1:], Tally{Missed: 1, NotMeasured: 1}},
		{"the one that it is for", []Row{row("cold/bytes", none, 10, true)}, Tally{Met: 1, NotMeasured: 1}},
		{"another than it is for", []Row{row("cold/bytes", none, 10, true), row("cold/bytes", all, 10, false)}, Tally{Met: 1, NotMeasured: 1}},
		{"fewer objects do not count", append(three(true), row("cold/bytes", none, 5, true)), Tally{Met: 1, NotMeasured: 1}},
	} {
		if got := tallyOf(Run{Rows: c.rows}, goals); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	widgets := []Goal{{Metric: "cold/synced", Kind: "widgets", Residencies: []string{none}}}
	more := row("cold/synced", none, 100, true)
	more.Kind = "widgets"
	mixed := Run{Rows: append(three(true), more)}
	if got, want := tallyOf(mixed, append(widgets, goals...)), (Tally{Met: 2, NotMeasured: 1}); got != want {
		t.Errorf("with ten times as many objects of another kind: %+v, want %+v", got, want)
	}
	if got, want := judged(mixed), "10 pods, 100 widgets"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (Tally{17, 6, 9}).String(), "Of 32 goals 17 are met, 6 missed, 9 not measured"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An earlier record is judged by the goals of today.
func TestJudge(t *testing.T) {
	rows := Build(samples(), Goals, testCommand)
	Judge(rows, nil)
	for _, r := range rows {
		if r.Goal != "" || r.Met != nil || r.Missed != "" {
			t.Errorf("%s still has the goal %q", r.Metric, r.Goal)
		}
	}
	Judge(rows, []Goal{{Metric: "restart/bytes", Limit: 1e-9, Text: "another"}})
	if r := find(t, rows, "restart/bytes", "", 100_000); r.Goal != "another" || r.Met == nil || *r.Met || r.Missed == "" {
		t.Errorf("%+v", r)
	}
}
