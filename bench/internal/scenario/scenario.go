package scenario

import (
	"context"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
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
	// Metrics in the order of the rows.
	Metrics []Metric
	// Subjects to be compared, for one kind.
	Subjects func(kind load.Kind) []subject.Spec
	// Stored gives Larder a file that holds what the server has; else it has none.
	Stored bool
	// Compacted gives Larder, and raw, a copy of that file without free pages, for this case alone.
	Compacted bool
	// Before prepares the case, in the driver. Default: nothing.
	Before func(ctx context.Context, h Host, c *Case) error
	// Drive acts while the process waits in Bench.Ready; proceed ends that wait. Default: no process waits.
	Drive func(ctx context.Context, h Host, c *Case, proceed func() error) error
	// Run measures, in the process of the case.
	Run func(ctx context.Context, b *Bench) (Result, error)
	// Seconds estimates how long one case takes, with n objects.
	Seconds func(c Case) float64
}

// Metric is one figure of a scenario.
type Metric struct {
	// Key in the Result.
	Key string
	// Title ends the row's name.
	Title string
	Unit  Unit
	// Against names what Larder is compared with, if that is not client-go: the Result of raw has the same Key, or that of Larder itself has
	// Key with the suffix Reference.
	Against string
}

// Reference is the suffix of what a process says of the limit that it has to be compared with.
const Reference = "_reference"

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

// Result is what one case said, by the keys of metrics.
type Result map[string]float64

// ServerCPU is the key under which the driver fills in the processor time of the server, if the process has set it.
const ServerCPU = "server_cpu"

// Host is what the driver can do to the server.
type Host interface {
	Cluster() cluster.Cluster
	// Revisions reserves that many revisions and returns the first.
	Revisions(count int) int
	// Changed tells that the stored files are behind the server now.
	Changed()
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
	// Marker is the object that is changed last, and Revision what it then says.
	Marker   int
	Revision int
}

// Bench is the process of one case.
type Bench struct {
	Case Case
	Kind load.Kind
	// Memory is sampled since the process began.
	Memory *proc.Sampler
	// Ready tells the driver to act, and waits until it has.
	Ready func(ctx context.Context) error
}

// All are the scenarios, in the order in which they are run and reported.
func All() []Scenario {
	return []Scenario{
		prepare, restart, restartHandler, restartChanged, cold, relist, reads,
		updatesHot, updatesSpread, latency, flash,
	}
}

// Find returns the scenario of that name.
func Find(name string) (Scenario, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

// informers are Larder in every residency, client-go as it comes and client-go without WatchList.
func informers(dynamic bool) []subject.Spec {
	return append(larders(subject.Spec{Dynamic: dynamic}),
		subject.Spec{Library: subject.ClientGo, Dynamic: dynamic}, subject.Spec{Library: subject.ClientGoList, Dynamic: dynamic})
}

// larders are Larder in every residency.
func larders(like subject.Spec) []subject.Spec {
	var specs []subject.Spec
	for _, residency := range subject.Residencies() {
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
