package report

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

func testRun() Record {
	return Record{
		ID: "20261121-120000", Command: "go -C bench run .", Commit: "abc",
		Machine: "linux/amd64, 2 cores", Server: "kube-apiserver v1.36.3", Cases: Cases(samples(), Asked{Runs: 1}),
	}
}

func TestRecord(t *testing.T) {
	written := testRun()
	path, err := written.Write(filepath.Join(t.TempDir(), "results"))
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read, written) {
		t.Error("what was read differs from what was written")
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// TestMerge checks that the Records of parts of a benchmark merge to the Record of a whole run.
func TestMerge(t *testing.T) {
	whole := testRun()
	part := func(keep func(s Sample) bool) Record {
		r := testRun()
		r.Cases = Cases(slices.DeleteFunc(samples(), func(s Sample) bool { return !keep(s) }), Asked{Runs: 1})
		return r
	}
	few := part(func(s Sample) bool { return s.N == 10_000 })
	many := part(func(s Sample) bool { return s.N != 10_000 })
	flash := part(func(s Sample) bool { return s.Scenario == "flash" })
	others := part(func(s Sample) bool { return s.Scenario != "flash" })
	for name, got := range map[string]Record{
		"numbers":          few.Merge(many),
		"numbers, reverse": many.Merge(few),
		"scenarios":        flash.Merge(others),
		"again":            whole.Merge(many),
	} {
		if !reflect.DeepEqual(got.Rows(), whole.Rows()) || got.Command != whole.Command {
			t.Errorf("%s: %+v, want %+v", name, got, whole)
		}
	}
}

func TestMergeReplaces(t *testing.T) {
	whole, slower := testRun(), samples()
	slower = slices.DeleteFunc(slower, func(s Sample) bool { return s.Scenario != "updates-hot" || s.N != 100_000 })
	for _, s := range slower {
		s.Result["rate"] /= 2
	}
	again := testRun()
	again.Command, again.Commit = "go -C bench run . -only updates-hot", "def"
	again.Cases = Cases(slower, Asked{Runs: 1})
	got := whole.Merge(again)
	rows := got.Rows()
	if rate := find(t, rows, "updates-hot/rate", "", 100_000).Larder.Median; rate != 22_500 {
		t.Errorf("%v updates per second", rate)
	}
	if rate := find(t, rows, "updates-hot/rate", "", 10_000).Larder.Median; rate != 45_000 {
		t.Errorf("%v updates per second of 10,000", rate)
	}
	if len(rows) != len(whole.Rows()) || got.Commit != "abc, def" || got.ID != whole.ID ||
		got.Command != whole.Command+"; "+again.Command {
		t.Errorf("%d rows, %+v", len(rows), got)
	}
}
