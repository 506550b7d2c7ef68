package scenario

import (
	"cmp"
	"slices"

	"github.com/larder-dev/larder/bench/internal/subject"
)

// Metric is one figure of a scenario.
type Metric struct {
	Key string
	// Title is appended to the scenario's title to name the figure in a table.
	Title string
	Unit  Unit
	// Against names the reference of Larder's figure, if it is not client-go: the figure with the same Key in the Result
	// of Raw, or the figure with Key and the suffix Reference in Larder's own Result.
	Against string
	Goals   []Goal
}

// Values of Metric.Against that are not the name of a figure.
const (
	// Fewer compares Larder with itself on a tenth of the objects.
	Fewer = "Larder with fewer objects"
	// Faster compares with the faster of client-go's two modes, with WatchList or without.
	Faster = "client-go's faster mode"
	// Nothing means that the goal limits the figure itself, not a ratio. The row still shows client-go's figure.
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

// Unit is the unit of a figure.
type Unit string

// The units of figures.
const (
	Seconds      Unit = "s"
	Microseconds Unit = "µs"
	Bytes        Unit = "B"
	PerSecond    Unit = "/s"
	Count        Unit = ""
)

// GoalsFor is the default kind of objects of a goal. GoalsN is the number of objects for which goals are set. With
// fewer objects a goal is only a hint.
const (
	GoalsFor = "pods"
	GoalsN   = 100_000
)

// Goal is a limit for a figure.
type Goal struct {
	// Kind is the kind of objects that the goal applies to. Default: GoalsFor.
	Kind    string
	Dynamic bool
	// Residencies must all meet the goal. Default: all residencies.
	Residencies []string
	// AtLeast is true if the limit is a minimum; otherwise it is a maximum.
	AtLeast bool
	// Value is true if the limit is for the figure itself; otherwise it is for the ratio.
	Value bool
	Limit float64
	Text  string
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

// For reports whether the goal applies to a row with this kind of objects and this residency.
func (g Goal) For(kind string, dynamic bool, residency string) bool {
	return cmp.Or(g.Kind, GoalsFor) == kind && g.Dynamic == dynamic && slices.Contains(g.Each(), residency)
}

// Each returns the residencies (decoded objects kept in memory or not) that each must meet the goal.
func (g Goal) Each() []string {
	if g.Residencies == nil {
		return subject.Residencies
	}
	return g.Residencies
}

// Excess returns the factor by which Larder's figure, or its ratio to client-go's, misses the goal. The goal is met if
// the factor is at most 1.
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
