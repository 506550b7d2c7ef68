package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// Row is one figure of Larder with one residency, beside the figures of its references.
type Row struct {
	Place
	Title, Figure string
	Metric        scenario.Metric
	Residency     string
	Larder        Summary
	// ClientGo, ClientGoList (client-go without WatchList) and Reference (which Metric.Against names) are the compared
	// figures. A figure that was not measured is nil.
	ClientGo, ClientGoList, Reference *Summary
	// Ratio is Larder's figure divided by the reference; nil if the reference was not measured.
	Ratio *float64
	// Goal is the text of the goal. Without a goal, Goal is empty and Met is nil.
	Goal string
	Met  *bool
	// Missed is the factor by which the goal was missed, as text.
	Missed  string
	Command string
	Commit  string
	asked   Asked
}

// Rows returns the rows ordered by scenario, kind and number of objects. Rows equal in these keys keep the order of
// measurement: typed before dynamic.
func (r Record) Rows() []Row {
	var rows []Row
	for _, s := range scenario.All() {
		for _, p := range r.places(s.Name) {
			for _, m := range s.Metrics {
				for _, residency := range subject.Residencies {
					if row, has := r.row(s, p, m, residency); has {
						rows = append(rows, row)
					}
				}
			}
		}
	}
	return rows
}

func (r Record) places(name string) []Place {
	var places []Place
	for _, c := range r.Cases {
		if c.Scenario == name && c.Library == subject.Larder && !slices.Contains(places, c.Place) {
			places = append(places, c.Place)
		}
	}
	slices.SortStableFunc(places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(kindIndex(a), kindIndex(b)), cmp.Compare(a.N, b.N))
	})
	return places
}

// row returns the row of one figure. It returns false if Larder was not measured, or if the reference is Larder with
// fewer objects and was not measured.
func (r Record) row(s scenario.Scenario, p Place, m scenario.Metric, residency string) (Row, bool) {
	larder := r.figure(p, subject.Larder, residency, m.Key)
	if larder == nil {
		return Row{}, false
	}
	asked := r.of(p, subject.Larder, residency).Asked
	row := Row{
		Place: p, Title: s.Title, Figure: m.Title, Metric: m, Residency: residency, Larder: *larder,
		Command: asked.Command(s.Name, p.Kind, p.N), Commit: asked.Commit, asked: asked,
	}
	if p.Dynamic {
		row.Title += ", dynamic"
	}
	switch m.Against {
	case "", scenario.Nothing, scenario.Faster:
		row.ClientGo = r.figure(p, subject.ClientGo, "", m.Key)
		row.ClientGoList = r.figure(p, subject.ClientGoList, "", m.Key)
	case scenario.Fewer:
		fewer := p
		fewer.N /= 10
		if row.Reference = r.figure(fewer, subject.Larder, residency, m.Key); row.Reference == nil {
			return Row{}, false
		}
		row.Figure += ", against that of " + count(float64(fewer.N))
		row.Command = asked.Command(s.Name, p.Kind, fewer.N, p.N)
	default:
		row.Reference = cmp.Or(r.figure(p, subject.Raw, "", m.Key),
			r.figure(p, subject.Larder, residency, m.Key+scenario.Reference))
	}
	row.judge()
	return row, true
}

func (r Record) of(p Place, library, residency string) *Case {
	wanted := Case{Place: p, Library: library, Residency: residency}
	if i := slices.IndexFunc(r.Cases, wanted.same); i >= 0 {
		return &r.Cases[i]
	}
	return nil
}

func (r Record) figure(p Place, library, residency, key string) *Summary {
	c := r.of(p, library, residency)
	if c == nil {
		return nil
	}
	if s, has := c.Figures[key]; has {
		return &s
	}
	return nil
}

func (r *Row) judge() {
	ratio := 0.0
	base := cmp.Or(r.Reference, r.ClientGo)
	if list := r.ClientGoList; r.Metric.Against == scenario.Faster && list != nil && list.Median < base.Median {
		base = list
	}
	if base != nil && base.Median != 0 {
		ratio = r.Larder.Median / base.Median
		r.Ratio = &ratio
	}
	i := slices.IndexFunc(r.Metric.Goals, func(g scenario.Goal) bool { return g.For(r.Kind, r.Dynamic, r.Residency) })
	if i < 0 || r.Ratio == nil && !r.Metric.Goals[i].Value {
		return
	}
	goal := r.Metric.Goals[i]
	excess := goal.Excess(r.Larder.Median, ratio)
	met := excess <= 1
	r.Goal, r.Met = goal.Text, &met
	switch {
	case met:
	case goal.AtLeast:
		r.Missed = times(excess) + " too little"
	default:
		r.Missed = times(excess) + " too much"
	}
}

// times formats a factor with enough digits that a missed goal never shows "1.0×".
func times(factor float64) string {
	if factor >= 10 {
		return count(factor) + "×"
	}
	return fmt.Sprintf("%.2f×", factor)
}

func kindIndex(p Place) int {
	return slices.IndexFunc(load.Kinds, func(k load.Kind) bool { return k.Name == p.Kind })
}
