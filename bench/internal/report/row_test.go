package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/informer"
)

func samples() []Sample {
	clientGo, list := subject.Spec{Library: subject.ClientGo}, subject.Spec{Library: subject.ClientGoList}
	raw := subject.Spec{Library: subject.Raw}
	var out []Sample
	add := func(name string, n int, spec subject.Spec, result scenario.Result) {
		out = append(out, Sample{Scenario: name, Kind: scenario.GoalsFor, N: n, Subject: spec, Result: result})
	}
	for _, n := range []int{10_000, 100_000} {
		size := float64(n) / 10_000
		for _, residency := range subject.Residencies {
			larder := subject.Spec{Library: subject.Larder, Residency: residency}
			disk := larder
			disk.Policy = informer.Disk
			add("restart", n, disk, scenario.Result{"synced_disk": 0.02 * size})
			for _, run := range []float64{1, 3, 2} {
				add("restart", n, larder, scenario.Result{"synced_resumed": 0.5 * run, "bytes": 20_000})
			}
			add("relist", n, larder, scenario.Result{"written": 100e3, "written" + scenario.Reference: 40e6 * size})
			add("updates-hot", n, larder, scenario.Result{
				"rate": 45_000, "told": 90_000, "told" + scenario.Reference: 100_000,
				"durable": 0.9, "durable" + scenario.Reference: 1.2,
			})
			add("updates-spread", n, larder, scenario.Result{"rate": 20_000})
		}
		for _, run := range []float64{1, 3, 2} {
			add("restart", n, clientGo, scenario.Result{
				"synced_disk": 0.6 * size, "synced_resumed": 0.6 * size * run, "bytes": 30e6 * size,
			})
			add("restart", n, list, scenario.Result{
				"synced_disk": 0.7 * size, "synced_resumed": 0.7 * size, "bytes": 1.2e6 * size,
			})
		}
		add("updates-hot", n, clientGo, scenario.Result{"rate": 48_000})
		add("updates-spread", n, clientGo, scenario.Result{"rate": 40_000})
		add("updates-spread", n, raw, scenario.Result{"rate": 25_000})
		usual := subject.Spec{Library: subject.Larder, Residency: subject.All}
		seldom := usual
		seldom.CommitInterval = 10 * time.Second
		add("flash", n, usual, scenario.Result{"written": 1000})
		add("flash", n, seldom, scenario.Result{"written_seldom": 500})
		add("flash", n, raw, scenario.Result{"written": 8000, "written_seldom": 8000})
	}
	return out
}

// rowsOf returns the rows of the samples of one run. It sets Asked.Runs to 1, although samples returns three samples of
// some cases.
func rowsOf(samples []Sample) []Row { return Record{Cases: Cases(samples, Asked{Runs: 1})}.Rows() }

func find(t *testing.T, rows []Row, metric, against string, n int) Row {
	t.Helper()
	i := slices.IndexFunc(rows, func(r Row) bool {
		return r.Scenario+"/"+r.Metric.Key == metric && r.Metric.Against == against && r.N == n
	})
	if i < 0 {
		t.Fatalf("there is no row %s against %q with %d", metric, against, n)
	}
	return rows[i]
}

func TestRows(t *testing.T) {
	rows := rowsOf(samples())
	for _, c := range []struct {
		metric, against string
		n               int
		ratio           float64
		goal            string
		met             bool
	}{
		{"restart/bytes", "", 100_000, 20_000 / 300e6, "at most 1/5,000", true},
		{"restart/synced_disk", "", 10_000, 0.02 / 0.6, "at most 1/50", false},
		{"restart/synced_disk", scenario.Fewer, 100_000, 10, "at most 1.5×", false},
		{"restart/synced_resumed", "", 100_000, 1.0 / 12, "at most 2.5 s", true},
		{"relist/written", "the file's size", 100_000, 100e3 / 400e6, "at most 5 %", true},
		{"updates-hot/rate", "", 100_000, 45.0 / 48, "at least 1.0×", false},
		{"updates-hot/durable", "a second and the commit", 100_000, 0.75, "at most a second and the commit", true},
		{"flash/written", "committing each event", 100_000, 1.0 / 8, "at most 1/5", true},
		{"flash/written_seldom", "committing each event", 100_000, 1.0 / 16, "at most 1/20", false},
	} {
		r := find(t, rows, c.metric, c.against, c.n)
		if r.Ratio == nil || r.Met == nil {
			t.Errorf("%s against %q: no ratio, or no verdict: %+v", c.metric, c.against, r)
			continue
		}
		if diff := *r.Ratio - c.ratio; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s against %q: ratio %g, want %g", c.metric, c.against, *r.Ratio, c.ratio)
		}
		if r.Goal != c.goal || *r.Met != c.met || (r.Missed == "") != c.met {
			t.Errorf("%s against %q: %q, met %t, missed %q", c.metric, c.against, r.Goal, *r.Met, r.Missed)
		}
	}
	if r := find(t, rows, "updates-spread/rate", "", 100_000); *r.Ratio != 0.5 || r.Met != nil {
		t.Errorf("updates of spread keys have no goal: %+v", r)
	}
	const raw = "raw bbolt, 4 MiB a transaction"
	if r := find(t, rows, "updates-spread/rate", raw, 10_000); *r.Ratio != 0.8 || r.Met != nil {
		t.Errorf("beside raw bbolt: %+v", r)
	}
	r := find(t, rows, "restart/synced_resumed", "", 10_000)
	if s := r.Larder; s.Runs != 3 || s.Median != 1 || s.Min != 0.5 || s.Max != 1.5 {
		t.Errorf("spread %+v", s)
	}
	if r.ClientGoList == nil || r.ClientGoList.Median != 0.7 || !strings.Contains(r.Command, "restart -pods 10000 ") {
		t.Errorf("%+v", r)
	}
}

// TestRawIsTypedOrDynamic checks that a dynamic row is compared with the dynamic reader of the raw file, or not at all.
func TestRawIsTypedOrDynamic(t *testing.T) {
	var samples []Sample
	add := func(library, residency string, dynamic bool, cold float64) {
		spec := subject.Spec{Library: library, Residency: residency, Dynamic: dynamic}
		samples = append(samples, Sample{
			Scenario: "reads", Kind: scenario.GoalsFor, N: scenario.GoalsN, Subject: spec, Result: scenario.Result{"cold": cold},
		})
	}
	ratios := func() map[bool]*float64 {
		out := map[bool]*float64{}
		for _, r := range rowsOf(samples) {
			out[r.Dynamic] = r.Ratio
		}
		return out
	}
	add(subject.Larder, subject.None, false, 20)
	add(subject.Larder, subject.None, true, 60)
	add(subject.Raw, "", false, 10)
	if got := ratios(); got[false] == nil || *got[false] != 2 || got[true] != nil {
		t.Errorf("with a typed reader: %v", got)
	}
	add(subject.Raw, "", true, 40)
	if got := ratios(); *got[false] != 2 || got[true] == nil || *got[true] != 1.5 {
		t.Errorf("with both: %v", got)
	}
}

func TestGoalsAreForPods(t *testing.T) {
	others := samples()
	for i := range others {
		others[i].Kind, others[i].Subject.Dynamic = "widgets", true
		o := others[i]
		if _, has := o.Result["synced_resumed"]; has && o.Subject.Residency == subject.All && o.N == 100_000 {
			o.Result["synced_resumed"] = 2.6
		}
	}
	rows := rowsOf(others)
	for _, r := range rows {
		if judged := r.Goal != "" || r.Met != nil; judged != (r.Metric.Key == "synced_resumed") {
			t.Errorf("%s of %s has the goal %q", r.Title+": "+r.Figure, r.Kind, r.Goal)
		}
	}
	if r := find(t, rows, "restart/synced_resumed", "", 100_000); r.Met == nil || *r.Met {
		t.Errorf("a start that takes too long with that many widgets: %+v", r)
	}
	if r := find(t, rows, "restart/synced_resumed", "", 10_000); r.Met == nil || !*r.Met {
		t.Errorf("a start that is quick enough: %+v", r)
	}
}

// TestGoalsOfMemory checks that RssAnon has a goal for the residency None, and none for All.
func TestGoalsOfMemory(t *testing.T) {
	var samples []Sample
	for _, name := range []string{"cold", "relist"} {
		for _, residency := range subject.Residencies {
			larder := subject.Spec{Library: subject.Larder, Residency: residency}
			samples = append(samples, Sample{name, "pods", 100_000, larder, scenario.Result{"rss_anon": 10}})
		}
		clientGo := subject.Spec{Library: subject.ClientGo}
		samples = append(samples, Sample{name, "pods", 100_000, clientGo, scenario.Result{"rss_anon": 100}})
	}
	rows := rowsOf(samples)
	if len(rows) != 4 {
		t.Errorf("%d rows, want 4", len(rows))
	}
	for _, r := range rows {
		judged := r.Residency == subject.None
		if (r.Met != nil) != judged || r.Ratio == nil {
			t.Errorf("%s with %s: %q, %v", r.Title+": "+r.Figure, r.Residency, r.Goal, r.Ratio)
		}
	}
}

// TestCommandOfGrowth checks that the command of a row that compares with fewer objects measures both numbers of
// objects.
func TestCommandOfGrowth(t *testing.T) {
	rows := Record{Cases: Cases(samples(), Asked{Runs: 5, Flags: "-quick -embedded"})}.Rows()
	const want = "go -C bench run . -only restart -pods 10000,100000 -configmaps 0 -widgets 0 -runs 5 -quick -embedded"
	if r := find(t, rows, "restart/synced_disk", scenario.Fewer, 100_000); r.Command != want {
		t.Errorf("%q, want %q", r.Command, want)
	}
	if r := find(t, rows, "restart/synced_disk", "", 100_000); r.Command != strings.Replace(want, "10000,", "", 1) {
		t.Errorf("%q", r.Command)
	}
}

// TestUnexpectedNumberOfRuns checks that a median of fewer or more runs than the command's has its number of runs.
func TestUnexpectedNumberOfRuns(t *testing.T) {
	r := Row{Metric: scenario.Metric{Unit: scenario.Seconds, Against: "raw"}, asked: Asked{Runs: 5}}
	for _, c := range []struct {
		s    Summary
		want string
	}{
		{Summary{Runs: 5, Median: 2, Min: 2, Max: 2}, "2.00 s"},
		{Summary{Runs: 5, Median: 2, Min: 1, Max: 3}, "2.00 s (1.00 s – 3.00 s)"},
		{Summary{Runs: 4, Median: 2, Min: 1, Max: 3}, "2.00 s (1.00 s – 3.00 s, of 4 runs)"},
		{Summary{Runs: 1, Median: 2, Min: 2, Max: 2}, "2.00 s (of 1 run)"},
		{Summary{Runs: 9, Median: 2, Min: 2, Max: 2}, "2.00 s (of 9 runs)"},
	} {
		if got := r.spread(&c.s); got != c.want {
			t.Errorf("%+v: %q, want %q", c.s, got, c.want)
		}
	}
	r.Reference = &Summary{Runs: 4, Median: 2}
	if got, want := r.other(), "2.00 s, raw (of 4 runs)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
