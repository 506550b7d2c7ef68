package runner

import (
	"slices"
	"time"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/scenario"
)

// group is what is measured on one server.
type group struct {
	real      bool
	kind      string
	n         int
	scenarios []scenario.Scenario
}

// groups returns the servers to be started, in order, with what is measured on them.
func (o Options) groups() []group {
	var all []group
	add := func(real bool, kind string, n int) {
		g := group{real: real && !o.EmbeddedOnly, kind: kind, n: n}
		for _, s := range scenario.All() {
			fits := s.Embedded != real || kind == widgets
			if slices.Contains(s.Kinds, kind) && fits && (o.Only == nil || o.Only.MatchString(s.Name)) {
				g.scenarios = append(g.scenarios, s)
			}
		}
		if n > 0 && len(g.scenarios) > 0 {
			all = append(all, g)
		}
	}
	for _, n := range o.Pods {
		add(true, pods, n)
	}
	add(true, configMaps, o.ConfigMaps)
	for _, n := range o.Pods {
		add(false, pods, n)
	}
	add(false, widgets, o.Widgets)
	return all
}

const (
	pods       = "pods"
	configMaps = "configmaps"
	widgets    = "widgets"
)

// cases returns the subjects of a scenario, once each.
func (o Options) casesOf(g group, s scenario.Scenario) []scenario.Case {
	var cases []scenario.Case
	for _, spec := range s.Subjects(load.Kinds[g.kind]) {
		cases = append(cases, scenario.Case{
			Scenario: s.Name, Kind: g.kind, N: g.n, Subject: spec, Effort: o.Effort, Profile: o.Profile,
		})
	}
	return cases
}

// A server takes so long to start, and so long for each 10,000 pods that it is given.
const (
	startSeconds      = 10.0
	loadSecondsPer10k = 12.0
	embeddedPer10k    = 1.0
)

// weights say what an object of a kind costs, in pods.
var weights = map[string]float64{pods: 1, configMaps: 3, widgets: 0.15}

// estimate returns how many cases a run has, and how long it takes on two quiet cores.
func (o Options) estimate() (cases int, d time.Duration) {
	seconds := 0.0
	for _, g := range o.groups() {
		weight := float64(g.n) * weights[g.kind]
		seconds += weight / 10_000 * embeddedPer10k
		if g.real {
			seconds += startSeconds + weight/10_000*loadSecondsPer10k
		}
		for _, s := range g.scenarios {
			for _, c := range o.casesOf(g, s) {
				cases += o.Runs
				c.N = int(weight)
				seconds += float64(o.Runs) * s.Seconds(c)
			}
		}
	}
	return cases, time.Duration(seconds) * time.Second
}
