package scenario

import (
	"cmp"
	"slices"

	"github.com/larder-dev/larder/bench/internal/subject"
)

// Metric is one figure of a scenario.
type Metric struct {
	// Key in the Result.
	Key string
	// Title ends the row's name.
	Title string
	Unit  Unit
	// Against names what Larder is compared with, if that is not client-go: the Result of Raw has the same Key, or that
	// of Larder itself has Key with the suffix Reference.
	Against string
	// Goals are what the project has set itself.
	Goals []Goal
}

// What a metric is compared with in a way of its own.
const (
	// Fewer is Larder with a tenth of the objects.
	Fewer = "Larder with fewer objects"
	// Nothing is for a figure that has to reach a value. The row shows client-go's, too.
	Nothing = "nothing"
)

func metric(key, title string, unit Unit, goals ...Goal) Metric {
	return Metric{Key: key, Title: title, Unit: unit, Goals: goals}
}

func (m Metric) against(what string) Metric {
	m.Against = what
	return m
}

func (m Metric) goal(g Goal) Metric {
	m.Goals = []Goal{g}
	return m
}

// Unit of a figure.
type Unit string

// The units.
const (
	Seconds      Unit = "s"
	Microseconds Unit = "µs"
	Bytes        Unit = "B"
	PerSecond    Unit = "/s"
	Count        Unit = ""
)

// GoalsFor is the kind that goals are for unless they say another, and GoalsN how many there are to be: with fewer, a
// goal is a hint.
const (
	GoalsFor = "pods"
	GoalsN   = 100_000
)

// Goal is what a figure is to reach.
type Goal struct {
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

func atMost(limit float64, text string, residencies ...string) Goal {
	return Goal{Limit: limit, Text: "at most " + text, Residencies: residencies}
}

func atLeast(limit float64, text string, residencies ...string) Goal {
	return Goal{Limit: limit, Text: "at least " + text, Residencies: residencies, AtLeast: true}
}

func (g Goal) value() Goal {
	g.Value = true
	return g
}

func (g Goal) dynamic() Goal {
	g.Dynamic = true
	return g
}

func (g Goal) of(kind string) Goal {
	g.Kind = kind
	return g
}

// For reports whether the goal is that of a row of its metric.
func (g Goal) For(kind string, dynamic bool, residency string) bool {
	return cmp.Or(g.Kind, GoalsFor) == kind && g.Dynamic == dynamic && slices.Contains(g.Each(), residency)
}

// Each returns the residencies that have to reach the goal.
func (g Goal) Each() []string {
	if g.Residencies == nil {
		return subject.Residencies
	}
	return g.Residencies
}

// Excess is how many times too much a figure is, or too little; the goal is met if it is not above 1.
func (g Goal) Excess(larder, ratio float64) float64 {
	figure := ratio
	if g.Value {
		figure = larder
	}
	if g.AtLeast {
		return g.Limit / figure
	}
	return figure / g.Limit
}
