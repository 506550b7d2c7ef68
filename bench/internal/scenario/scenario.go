package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// Scenario is one thing that is done with every subject.
type Scenario struct {
	// Name is what -only matches, and what results call it.
	Name string
	// Title begins the rows of its metrics.
	Title string
	// Kinds that it is done with.
	Kinds []string
	// Embedded scenarios run on the embedded server, since they ask for more than a real one can give.
	Embedded bool
	// Stored gives Larder a file that holds what the server has; else it has none.
	Stored bool
	// Compacted gives Larder, and Raw, a copy of that file without free pages, for this case alone.
	Compacted bool
	// Subjects to be compared, for one kind, but for that of Raw.
	Subjects func(kind load.Kind) []subject.Spec
	// Changes are what happens to the objects. Default: nothing.
	Changes func(c Case) Changes
	// Run measures, in the process of the case.
	Run func(ctx context.Context, b *Bench) (Result, error)
	// Raw measures, in place of Run, what an informer cannot do better than. Default: there is no such limit.
	Raw func(ctx context.Context, b *Bench) (Result, error)
	// Metrics in the order of the rows.
	Metrics []Metric
}

// Case is one subject of one scenario.
type Case struct {
	Scenario string
	Kind     string
	N        int
	Subject  subject.Spec
	Access   cluster.Access
	// File is where Larder's store is, or may be.
	File string
	// Profile is the directory for profiles of the processor and of the heap. Default: none are made.
	Profile string `json:",omitempty"`
	// Effort is 1 in a full run, less in a quick one: how long, or how often, what can be cut short is done.
	Effort float64
	// Made is how many changes the driver makes. The last is of the object Marker, which then says Revision.
	Made, Marker, Revision int
}

// Changes are what the driver does to the objects of a case, while its process waits in Bench.Ready.
type Changes struct {
	// Numbers of the objects, in the order in which they are changed.
	Numbers []int
	// Rounds is how often all of them are changed, one round after the other.
	Rounds int
	// PerSecond is the rate of changes that begin when the wait ends. Default: it ends when all have been made.
	PerSecond float64
	// BeforeStart makes them before the process starts.
	BeforeStart bool
	// LoseHistory restarts the server after them, so that it answers watches with 410.
	LoseHistory bool
}

// Result is what one case said, by the keys of metrics.
type Result map[string]float64

// ServerCPU is the key under which the driver fills in the processor time of the server, if the process has set it.
const ServerCPU = "server_cpu"

// Reference is the suffix of what a process says of the limit that it has to be compared with.
const Reference = "_reference"

// Measure returns what measures a case: Run or Raw of its scenario.
func Measure(c Case) (func(ctx context.Context, b *Bench) (Result, error), error) {
	for _, s := range All() {
		switch {
		case s.Name != c.Scenario:
		case c.Subject.Library == subject.Raw:
			return s.Raw, nil
		default:
			return s.Run, nil
		}
	}
	return nil, fmt.Errorf("there is no scenario %q", c.Scenario)
}

// Cases returns all subjects of a scenario, for one kind: Raw is typed or dynamic, as the others are.
func (s Scenario) Cases(kind load.Kind) []subject.Spec {
	specs := s.Subjects(kind)
	for _, spec := range slices.Clone(specs) {
		raw := subject.Spec{Library: subject.Raw, Dynamic: spec.Dynamic}
		if s.Raw != nil && !slices.Contains(specs, raw) {
			specs = append(specs, raw)
		}
	}
	return specs
}

// every returns each step-th of the numbers below n, from the first one on. Objects that are busy lie among those that
// are not: if they were neighbours in the file, a commit of many would write few pages.
func every(step, n int) []int {
	numbers := make([]int, 0, (n+step-1)/step)
	for i := 0; i < n; i += step {
		numbers = append(numbers, i)
	}
	return numbers
}

// shuffled returns the numbers below n in an order that is always the same.
func shuffled(n int) []int { return rand.New(rand.NewPCG(2, 3)).Perm(n) }

// informers are Larder in every residency, client-go as it comes and client-go without WatchList.
func informers(dynamic bool) []subject.Spec {
	return append(larders(subject.Spec{Dynamic: dynamic}), subject.Spec{Library: subject.ClientGo, Dynamic: dynamic},
		subject.Spec{Library: subject.ClientGoList, Dynamic: dynamic})
}

// larders are Larder in every residency.
func larders(like subject.Spec) []subject.Spec {
	var specs []subject.Spec
	for _, residency := range subject.Residencies {
		s := like
		s.Library, s.Residency = subject.Larder, residency
		specs = append(specs, s)
	}
	return specs
}

// typedAndDynamic are the informers on typed objects, where the kind has a Go type, and on unstructured ones.
func typedAndDynamic(kind load.Kind) []subject.Spec {
	if kind.Example == nil {
		return informers(true)
	}
	return append(informers(false), informers(true)...)
}

// typed are the informers on typed objects, or on unstructured ones where the kind has no Go type.
func typed(kind load.Kind) []subject.Spec { return informers(kind.Example == nil) }

// updated are the informers whose pipeline is measured.
func updated(load.Kind) []subject.Spec {
	return append(larders(subject.Spec{}), subject.Spec{Library: subject.ClientGo})
}
