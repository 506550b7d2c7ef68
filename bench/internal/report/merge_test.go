package report

import (
	"reflect"
	"slices"
	"testing"
)

// Parts that are measured one after the other make the record of a whole run.
func TestMerge(t *testing.T) {
	whole := testRun()
	part := func(keep func(s Sample) bool) Run {
		run := testRun()
		run.Rows = Build(slices.DeleteFunc(samples(), func(s Sample) bool { return !keep(s) }), Goals, testCommand)
		return run
	}
	few := part(func(s Sample) bool { return s.N == 10_000 })
	many := part(func(s Sample) bool { return s.N != 10_000 })
	flash := part(func(s Sample) bool { return s.Scenario == "flash" })
	others := part(func(s Sample) bool { return s.Scenario != "flash" })
	for name, got := range map[string]Run{
		"numbers":          Merge(few, many, Goals),
		"numbers, reverse": Merge(many, few, Goals),
		"scenarios":        Merge(flash, others, Goals),
		"again":            Merge(whole, many, Goals),
	} {
		if !reflect.DeepEqual(got, whole) {
			t.Errorf("%s: %+v, want %+v", name, got, whole)
		}
	}
}

// What is measured again takes the place of what was there.
func TestMergeReplaces(t *testing.T) {
	whole, slower := testRun(), samples()
	slower = slices.DeleteFunc(slower, func(s Sample) bool { return s.Scenario != "updates-hot" || s.N != 100_000 })
	for _, s := range slower {
		s.Result["rate"] /= 2
	}
	again := testRun()
	again.Command, again.Commit = "go -C bench run . -only updates-hot", "def"
	again.Rows = Build(slower, Goals, testCommand)
	got := Merge(whole, again, Goals)
	if rate := *find(t, got.Rows, "updates-hot/rate", "", 100_000).Larder; rate != 22_500 {
		t.Errorf("%v updates per second", rate)
	}
	if rate := *find(t, got.Rows, "updates-hot/rate", "", 10_000).Larder; rate != 45_000 {
		t.Errorf("%v updates per second of 10,000", rate)
	}
	if len(got.Rows) != len(whole.Rows) || got.Commit != "abc, def" || got.Command != whole.Command+"; "+again.Command || got.ID != whole.ID {
		t.Errorf("%d rows, %+v", len(got.Rows), got)
	}
}
