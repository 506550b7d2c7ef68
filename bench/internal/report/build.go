package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/stat"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// Sample is what one case said.
type Sample struct {
	Scenario, Kind string
	N              int
	Subject        subject.Spec
	Result         scenario.Result
}

// againstNothing is for figures that have to reach a value.
const againstNothing = "nothing"

// Build makes the rows, in the order of the scenarios. command is how they were asked for.
func Build(samples []Sample, goals []Goal, command Command) []Row {
	var rows []Row
	for _, s := range scenario.All() {
		for _, place := range placesOf(samples, s.Name) {
			t := table{samples: samples, place: place, scenario: s}
			for _, m := range s.Metrics {
				rows = append(rows, t.rows(m, goals)...)
			}
		}
	}
	for i := range rows {
		name, _, _ := strings.Cut(rows[i].Metric, "/")
		rows[i].Command = command.Of(name, rows[i].Kind, rows[i].N)
	}
	rows = append(rows, growth(rows)...)
	Judge(rows, goals)
	return rows
}

// place is where figures can be compared.
type place struct {
	scenario, kind string
	n              int
	dynamic        bool
}

// placesOf returns the places of a scenario, in the order in which they were measured, typed before dynamic.
func placesOf(samples []Sample, name string) []place {
	var places []place
	seen := map[place]bool{}
	for _, s := range samples {
		p := place{s.Scenario, s.Kind, s.N, s.Subject.Dynamic}
		if s.Scenario == name && s.Subject.Library != subject.Raw && !seen[p] {
			seen[p] = true
			places = append(places, p)
		}
	}
	return places
}

// table is the samples of one place.
type table struct {
	samples  []Sample
	place    place
	scenario scenario.Scenario
}

// summary sums up a figure of a subject; nil if there is none.
func (t table) summary(key, library, residency string) *stat.Summary {
	var values []float64
	for _, s := range t.samples {
		p := t.place
		same := s.Scenario == p.scenario && s.Kind == p.kind && s.N == p.n && s.Subject.Library == library && s.Subject.Dynamic == p.dynamic
		if value, has := s.Result[key]; same && has && (residency == "" || s.Subject.Residency == residency) {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		return nil
	}
	sum := stat.Of(values)
	return &sum
}

// residencies are those that were measured in the place, in their order.
func (t table) residencies() []string {
	var names []string
	for _, s := range t.samples {
		here := place{s.Scenario, s.Kind, s.N, s.Subject.Dynamic} == t.place
		if here && s.Subject.Library == subject.Larder && !slices.Contains(names, s.Subject.Residency) {
			names = append(names, s.Subject.Residency)
		}
	}
	return names
}

// rows are those of one metric, one for each residency.
func (t table) rows(m scenario.Metric, goals []Goal) []Row {
	var rows []Row
	for _, residency := range t.residencies() {
		larder := t.summary(m.Key, subject.Larder, residency)
		if larder == nil {
			continue
		}
		row := Row{
			Scenario: t.title(m), Metric: t.scenario.Name + "/" + m.Key, Kind: t.place.kind, Dynamic: t.place.dynamic,
			Unit: string(m.Unit), N: t.place.n, Residency: residency, Against: m.Against,
			Larder: &larder.Median, Spread: Spread{Larder: *larder},
		}
		if m.Against == "" || m.Against == againstNothing {
			row.Spread.ClientGo = t.summary(m.Key, subject.ClientGo, "")
			row.Spread.ClientGoList = t.summary(m.Key, subject.ClientGoList, "")
		} else if row.Spread.Reference = t.summary(m.Key, subject.Raw, ""); row.Spread.Reference == nil {
			row.Spread.Reference = t.summary(m.Key+scenario.Reference, subject.Larder, residency)
		}
		row.ClientGo, row.ClientGoList = median(row.Spread.ClientGo), median(row.Spread.ClientGoList)
		row.Reference = median(row.Spread.Reference)
		rows = append(rows, row)
		// A figure that has to reach a value as well is compared twice.
		absolute := row
		absolute.Against = againstNothing
		if _, has := goalOf(goals, absolute); has {
			absolute.Scenario += ", by itself"
			rows = append(rows, absolute)
		}
	}
	return rows
}

func (t table) title(m scenario.Metric) string {
	title := t.scenario.Title
	if t.place.dynamic {
		title += ", dynamic"
	}
	return title + ": " + m.Title
}

func median(s *stat.Summary) *float64 {
	if s == nil {
		return nil
	}
	return &s.Median
}

// growth compares the time to HasSynced from disk with that of the smallest number of objects: a restart is not to
// grow with it.
func growth(rows []Row) []Row {
	var out []Row
	for _, r := range rows {
		if r.Metric != "restart/synced_disk" || r.Kind != GoalsFor {
			continue
		}
		for _, fewer := range rows {
			if fewer.Metric == r.Metric && fewer.Kind == r.Kind && fewer.Residency == r.Residency && fewer.N*10 == r.N {
				grown := r
				grown.Scenario += fmt.Sprintf(", against that of %s", count(float64(fewer.N)))
				grown.Command = r.withFewer(fewer.N)
				grown.Against, grown.Reference, grown.Spread.Reference = againstFewer, fewer.Larder, &fewer.Spread.Larder
				grown.ClientGo, grown.ClientGoList, grown.Spread.ClientGo, grown.Spread.ClientGoList = nil, nil, nil, nil
				out = append(out, grown)
			}
		}
	}
	return out
}

// Judge sets the ratios and verdicts of rows, those of an earlier record too, which may have been made with other goals.
func Judge(rows []Row, goals []Goal) {
	for i := range rows {
		rows[i].compare(goals)
	}
}

// compare sets the ratio, and what became of the goal.
func (r *Row) compare(goals []Goal) {
	r.Goal, r.Met, r.Missed = "", nil, ""
	base := r.ClientGo
	if r.Reference != nil {
		base = r.Reference
	}
	ratio := 0.0
	if base != nil && *base != 0 {
		ratio = *r.Larder / *base
		r.Ratio = &ratio
	}
	goal, has := goalOf(goals, *r)
	if !has || r.Ratio == nil && !goal.Value {
		return
	}
	met := goal.Met(*r.Larder, ratio)
	r.Goal, r.Met = goal.Text, &met
	if !met {
		r.Missed = goal.Missed(*r.Larder, ratio)
	}
}
