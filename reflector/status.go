package reflector

import "time"

// Status is a snapshot of a reflector.
type Status struct {
	State State
	// ResourceVersion is the last one delivered to the sink.
	ResourceVersion string
	// LastContact is when the server was last heard; zero if never in this run.
	LastContact time.Time
	// Lists and Watches count requests of this run; the limit=1 probes are counted apart.
	Lists   int
	Watches int
	Probes  int
	// Resumes counts watches that the server accepted at a resourceVersion we held.
	Resumes int
	// Relists counts lists by reason, ReasonCold apart.
	Relists map[Reason]int
	// LastRelist is the reason of the newest one.
	LastRelist Reason
	// Err is why the connection is down or degraded; nil while it is healthy.
	Err error
}
