package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/larder-dev/larder/bench/internal/subject"
)

// Goal is what a row is to reach.
type Goal struct {
	// Metric as scenario/key; Against as the metric's: empty is client-go.
	Metric, Against string
	// Kind of the objects. Default: GoalsFor.
	Kind string
	// Dynamic is for unstructured objects.
	Dynamic bool
	// Residencies that it is for, and each of which has to reach it. Default: all.
	Residencies []string
	// AtLeast is for what is better the larger it is; else the limit is the most that it may be.
	AtLeast bool
	// Value compares the figure itself; else its ratio to what it is compared with.
	Value bool
	Limit float64
	// Text is how the goal is written.
	Text string
}

// Met reports whether a row reaches the goal.
func (g Goal) Met(larder, ratio float64) bool {
	figure := ratio
	if g.Value {
		figure = larder
	}
	if g.AtLeast {
		return figure >= g.Limit
	}
	return figure <= g.Limit
}

// Missed says by how much: how many times too much, or too little.
func (g Goal) Missed(larder, ratio float64) string {
	figure := ratio
	if g.Value {
		figure = larder
	}
	if g.AtLeast {
		return times(g.Limit/figure) + " too little"
	}
	return times(figure/g.Limit) + " too much"
}

// times writes a factor. A goal that is missed by little is not missed by "1.0×".
func times(factor float64) string {
	if factor >= 10 {
		return count(factor) + "×"
	}
	return fmt.Sprintf("%.2f×", factor)
}

// goalOf returns the goal of a row, if it has one.
func goalOf(goals []Goal, r Row) (Goal, bool) {
	for _, g := range goals {
		if g.isOf(r) {
			return g, true
		}
	}
	return Goal{}, false
}

// isOf reports whether the goal is that of a row.
func (g Goal) isOf(r Row) bool {
	return g.Metric == r.Metric && g.Against == r.Against && g.kind() == r.Kind && g.Dynamic == r.Dynamic &&
		slices.Contains(g.residencies(), r.Residency)
}

func (g Goal) kind() string { return cmp.Or(g.Kind, GoalsFor) }

func (g Goal) residencies() []string {
	if g.Residencies == nil {
		return subject.Residencies()
	}
	return g.Residencies
}
