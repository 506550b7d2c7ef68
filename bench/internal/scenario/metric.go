package scenario

import (
	"cmp"
	"slices"

	"github.com/larder-dev/larder/bench/internal/subject"
)

// Metric is one figure of a scenario.
type Metric struct {
	// Key of the figure in the Result.
	Key string
	// Title is the end of the row's name.
	Title string
	Unit  Unit
	// Against names the reference of Larder's figure, if it is not client-go: the figure with the same Key in the Result
	// of Raw, or the figure with Key and the suffix Reference in Larder's own Result.
	Against string
	// Goals are the project's goals for the figure.
	Goals []Goal
}

// Special values of Metric.Against.
const (
	// Fewer compares with Larder on a tenth of the objects.
	Fewer = "Larder with fewer objects"
	// Faster compares with the faster of client-go's two modes, with WatchList or without.
	Faster = "client-go's faster mode"
	// Nothing: the goal is a value. The row still shows client-go's figure.
	Nothing = "nothing"
)

func metric(key, title string, unit Unit, goals ...Goal) Metric {
	return Metric{Key: key, Title: title, Unit: unit, Goals: goals}
}

func (m Metric) against(what string) Metric {
	m.Against = what
	return m
}

func (m Metric) goal(goals ...Goal) Metric {
	m.Goals = goals
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

// GoalsFor is the default kind of goals, and GoalsN their number of objects. With fewer objects a goal is only a hint.
const (
	GoalsFor = "pods"
	GoalsN   = 100_000
)

// Goal is a limit for a figure.
type Goal struct {
	// Kind of the objects. Default: GoalsFor.
	Kind string
	// Dynamic is true if the goal is for unstructured objects.
	Dynamic bool
	// Residencies that each must meet the goal. Default: all.
	Residencies []string
	// AtLeast is true if the limit is a minimum; otherwise it is a maximum.
	AtLeast bool
	// Value is true if the limit is for the figure itself; otherwise it is for the ratio.
	Value bool
	Limit float64
	// Text is the goal as results show it.
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

// For reports whether the goal applies to a row of its metric.
func (g Goal) For(kind string, dynamic bool, residency string) bool {
	return cmp.Or(g.Kind, GoalsFor) == kind && g.Dynamic == dynamic && slices.Contains(g.Each(), residency)
}

// Each returns the residencies that must meet the goal.
func (g Goal) Each() []string {
	if g.Residencies == nil {
		return subject.Residencies
	}
	return g.Residencies
}

// Excess returns the factor by which a figure misses the goal. The goal is met if the factor is at most 1.
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
