package report

import (
	"fmt"
	"strings"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/scenario"
)

// tally counts goals that are met, missed and not measured, for the largest number of objects of their kind. A goal has
// a row for each of its residencies. It is missed if one row misses it, and met if all rows meet it.
type tally struct{ met, missed, notMeasured int }

func tallyOf(rows []Row, scenarios []scenario.Scenario) tally {
	var t tally
	for _, s := range scenarios {
		for _, m := range s.Metrics {
			for _, g := range m.Goals {
				switch met, missed := verdicts(rows, s.Name, m, g); {
				case missed > 0:
					t.missed++
				case met == len(g.Each()):
					t.met++
				default:
					t.notMeasured++
				}
			}
		}
	}
	return t
}

func verdicts(rows []Row, name string, m scenario.Metric, g scenario.Goal) (met, missed int) {
	for _, r := range rows {
		same := r.Scenario == name && r.Metric.Key == m.Key && r.Metric.Against == m.Against
		if !same || r.Met == nil || !g.For(r.Kind, r.Dynamic, r.Residency) || r.N != mostObjects(rows, r.Kind) {
			continue
		}
		if *r.Met {
			met++
		} else {
			missed++
		}
	}
	return met, missed
}

func (t tally) String() string {
	return fmt.Sprintf("Of %d goals %d are met, %d missed, %d not measured",
		t.met+t.missed+t.notMeasured, t.met, t.missed, t.notMeasured)
}

func mostObjects(rows []Row, kind string) int {
	most := 0
	for _, r := range rows {
		if r.Goal != "" && r.Kind == kind {
			most = max(most, r.N)
		}
	}
	return most
}

func judged(rows []Row) string {
	var parts []string
	for _, k := range load.Kinds {
		if most := mostObjects(rows, k.Name); most > 0 || k.Name == scenario.GoalsFor {
			parts = append(parts, count(float64(most))+" "+k.Name)
		}
	}
	return strings.Join(parts, ", ")
}
