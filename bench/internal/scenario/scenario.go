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

// Scenario describes one measurement, which is repeated for each compared informer.
type Scenario struct {
	// Name identifies the scenario in results and for the flag -only.
	Name string
	// Title begins the names of the scenario's figures in tables.
	Title string
	Kinds []string
	// Embedded is true if the scenario runs on the embedded API server, because kube-apiserver is too slow.
	Embedded bool
	// Stored is true if Larder starts with a file that is up to date with the server. Otherwise Larder starts without a
	// file.
	Stored bool
	// Compacted is true if Larder and the bbolt reference each start with a copy of the stored file that has no free
	// pages.
	Compacted bool
	// Subjects returns the informers to compare for a kind of objects. The bbolt reference is not among them.
	Subjects func(kind load.Kind) []subject.Spec
	// Changes returns the changes of objects during the case. Default: none.
	Changes func(c Case) Changes
	Run     func(ctx context.Context, b *Bench) (Result, error)
	// Raw measures the upper bound for any informer, for example plain bbolt, in place of Run. Default: no bound is
	// measured.
	Raw     func(ctx context.Context, b *Bench) (Result, error)
	Metrics []Metric
}

// Case is one measurement: a scenario with one informer, one kind and one number of objects.
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
	// Effort is 1 in a full run, and less in a quick run. It scales durations and numbers of repetitions.
	Effort float64
	// Made is the number of changes that the driver makes on the server. The last change sets the object number Marker to
	// the revision Revision.
	Made, Marker, Revision int
}

// Changes are the changes of objects that the driver makes on the server while the case's process waits in Bench.Ready.
type Changes struct {
	Numbers []int
	// Rounds is the number of changes of each object. Every object is changed once before the next round begins.
	Rounds int
	// PerSecond is the rate of changes. If it is set, the changes begin when Bench.Ready returns. Default: Ready returns
	// after all changes.
	PerSecond float64
	// BeforeStart is true if the changes are made before the case's process starts.
	BeforeStart bool
	// LoseHistory is true if the server restarts after the changes, so that it answers watches with 410.
	LoseHistory bool
}

// Result holds the figures of one benchmark case, by the key of the metric.
type Result map[string]float64

// ServerCPU is the key of the server's processor time. The driver sets its value if the process has set the key.
const ServerCPU = "server_cpu"

// Reference is the suffix of a figure's key under which a case stores a comparison value that the case itself has
// measured.
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

// Cases returns the informers to measure for one kind of objects. A bbolt reference is added once for typed and once
// for dynamic informers.
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

// every returns every step-th number below n, beginning with 0. It spreads the changed objects over the file: a commit
// of neighbours would write few pages.
func every(step, n int) []int {
	numbers := make([]int, 0, (n+step-1)/step)
	for i := 0; i < n; i += step {
		numbers = append(numbers, i)
	}
	return numbers
}

func shuffled(n int) []int { return rand.New(rand.NewPCG(2, 3)).Perm(n) }

// informers returns Larder with every residency, client-go with its defaults, and client-go without WatchList.
func informers(dynamic bool) []subject.Spec {
	return append(larders(subject.Spec{Dynamic: dynamic}), subject.Spec{Library: subject.ClientGo, Dynamic: dynamic},
		subject.Spec{Library: subject.ClientGoList, Dynamic: dynamic})
}

// larders returns variants of a Larder informer, one for each residency.
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

// typed returns the informers on typed objects, or on unstructured objects if the kind has no Go type.
func typed(kind load.Kind) []subject.Spec { return informers(kind.Example == nil) }

// updated returns the informers for the scenarios that measure the delivery of updates.
func updated(load.Kind) []subject.Spec {
	return append(larders(subject.Spec{}), subject.Spec{Library: subject.ClientGo})
}
