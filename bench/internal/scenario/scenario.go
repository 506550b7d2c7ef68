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

// Scenario is a measurement of several subjects.
type Scenario struct {
	// Name of the scenario, in results and for -only.
	Name string
	// Title is the start of the rows of its metrics.
	Title string
	// Kinds of objects to measure with.
	Kinds []string
	// Embedded scenarios run on the embedded server, because a real one is too slow.
	Embedded bool
	// Stored gives Larder a file that is up to date with the server; otherwise Larder has no file.
	Stored bool
	// Compacted gives Larder and Raw a private copy of that file without free pages.
	Compacted bool
	// Subjects returns the subjects to compare for a kind, without Raw.
	Subjects func(kind load.Kind) []subject.Spec
	// Changes returns the changes of objects during the case. Default: none.
	Changes func(c Case) Changes
	// Run measures the case, in its process.
	Run func(ctx context.Context, b *Bench) (Result, error)
	// Raw measures the upper limit of an informer, in place of Run. Default: no limit is measured.
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
	// File is the path of Larder's store, which need not exist.
	File string
	// Profile is the directory for profiles of the processor and of the heap. Default: no profiles.
	Profile string `json:",omitempty"`
	// Effort is 1 in a full run, and less in a quick one. It scales durations and numbers of repetitions.
	Effort float64
	// Made is the number of changes by the driver. The last one gives the object Marker the Revision.
	Made, Marker, Revision int
}

// Changes are the driver's changes of objects, made while the case's process waits in Bench.Ready.
type Changes struct {
	// Numbers of the objects, in the order of the changes.
	Numbers []int
	// Rounds is the number of changes of each object, one round after the other.
	Rounds int
	// PerSecond is the rate of changes that begin when Bench.Ready returns. Default: Ready returns after all changes.
	PerSecond float64
	// BeforeStart makes the changes before the process starts.
	BeforeStart bool
	// LoseHistory restarts the server after the changes, so that it answers watches with 410.
	LoseHistory bool
}

// Result has the figures of one case, by metric key.
type Result map[string]float64

// ServerCPU is the key of the server's processor time. The driver sets its value if the process has set the key.
const ServerCPU = "server_cpu"

// Reference is the key suffix of a reference that the process itself has measured.
const Reference = "_reference"

// Measure returns the function that measures a case: Run or Raw of its scenario.
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

// Cases returns all subjects of a scenario, for one kind. Raw is added once for typed and once for dynamic subjects.
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

// every returns every step-th number below n, beginning with 0. It spreads the busy objects over the file: a commit of
// neighbours would write few pages.
func every(step, n int) []int {
	numbers := make([]int, 0, (n+step-1)/step)
	for i := 0; i < n; i += step {
		numbers = append(numbers, i)
	}
	return numbers
}

// shuffled returns the numbers below n in a fixed random order.
func shuffled(n int) []int { return rand.New(rand.NewPCG(2, 3)).Perm(n) }

// informers returns Larder with every residency, client-go with its defaults, and client-go without WatchList.
func informers(dynamic bool) []subject.Spec {
	return append(larders(subject.Spec{Dynamic: dynamic}), subject.Spec{Library: subject.ClientGo, Dynamic: dynamic},
		subject.Spec{Library: subject.ClientGoList, Dynamic: dynamic})
}

// larders returns Larder with every residency.
func larders(like subject.Spec) []subject.Spec {
	var specs []subject.Spec
	for _, residency := range subject.Residencies {
		s := like
		s.Library, s.Residency = subject.Larder, residency
		specs = append(specs, s)
	}
	return specs
}

// typedAndDynamic returns the informers on typed objects, if the kind has a Go type, and on unstructured objects.
func typedAndDynamic(kind load.Kind) []subject.Spec {
	if kind.Example == nil {
		return informers(true)
	}
	return append(informers(false), informers(true)...)
}

// typed returns the informers on typed objects, or on unstructured ones if the kind has no Go type.
func typed(kind load.Kind) []subject.Spec { return informers(kind.Example == nil) }

// updated returns the informers whose update pipeline is measured.
func updated(load.Kind) []subject.Spec {
	return append(larders(subject.Spec{}), subject.Spec{Library: subject.ClientGo})
}
