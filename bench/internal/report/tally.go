package report

import (
	"fmt"
	"strings"
)

// Tally is what became of the goals, with the largest number of objects of their kind. A goal has a row for each residency that it is for. It is missed
// if one of them misses it, met if all meet it, and else not measured, or not with every residency.
type Tally struct{ Met, Missed, NotMeasured int }

func tallyOf(run Run, goals []Goal) Tally {
	var t Tally
	for _, g := range goals {
		met, missed, most := 0, 0, mostObjects(run, g.kind())
		for _, r := range run.Rows {
			switch {
			case r.Met == nil || r.N != most || !g.isOf(r):
			case *r.Met:
				met++
			default:
				missed++
			}
		}
		switch {
		case missed > 0:
			t.Missed++
		case met == len(g.residencies()):
			t.Met++
		default:
			t.NotMeasured++
		}
	}
	return t
}

// String begins a sentence.
func (t Tally) String() string {
	return fmt.Sprintf("Of %d goals %d are met, %d missed, %d not measured", t.Met+t.Missed+t.NotMeasured, t.Met, t.Missed, t.NotMeasured)
}

// mostObjects is the largest number of objects of a kind that has a goal.
func mostObjects(run Run, kind string) int {
	most := 0
	for _, r := range run.Rows {
		if r.Goal != "" && r.Kind == kind {
			most = max(most, r.N)
		}
	}
	return most
}

// judged names the objects that a tally is of.
func judged(run Run) string {
	var parts []string
	for _, kind := range kinds {
		if most := mostObjects(run, kind); most > 0 || kind == GoalsFor {
			parts = append(parts, count(float64(most))+" "+kind)
		}
	}
	return strings.Join(parts, ", ")
}
