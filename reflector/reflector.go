package reflector

import (
	"context"

	"k8s.io/client-go/tools/cache"
)

// State is where the state machine stands; see doc.go for the transitions.
type State string

// Reflector lists and watches one resource into a Sink.
type Reflector struct {
	lw   cache.ListerWatcherWithContext
	sink Sink
	o    Options
}

// New returns a reflector. It starts nothing.
func New(lw cache.ListerWatcherWithContext, sink Sink, o Options) *Reflector {
	return &Reflector{lw: lw, sink: sink, o: o}
}

// Run lists and watches until ctx ends or the sink is closed, and returns when
// nothing of it is running any more. It may be called once.
func (r *Reflector) Run(ctx context.Context) error { return nil }

// Relist asks for a list for the given reason as soon as possible; it does not wait.
func (r *Reflector) Relist(reason Reason) {}

// Status returns a snapshot. Safe at any time.
func (r *Reflector) Status() Status { return Status{} }

// LastSyncResourceVersion is the last one delivered to the sink. Safe at any time.
func (r *Reflector) LastSyncResourceVersion() string { return "" }
