package reflector

import (
	"context"
	"errors"
	"sync"

	"github.com/larder-dev/larder/reflector/internal/request"
	"k8s.io/client-go/tools/cache"
)

// Reflector lists and watches one resource into a Sink.
type Reflector struct {
	lw    cache.ListerWatcherWithContext
	sink  Sink
	o     Options
	board board

	mu      sync.Mutex
	asked   Reason        // guarded by mu; a list that Relist asked for
	rewound bool          // guarded by mu; a list that Contradicted asked for
	spent   bool          // guarded by mu; a contradiction has led to a list since the connection was last lost
	running bool          // guarded by mu; Run was called
	wake    chan struct{} // holds one token while asked or rewound is set
}

// New returns a reflector. It starts nothing.
func New(lw cache.ListerWatcherWithContext, sink Sink, o Options) *Reflector {
	return &Reflector{lw: lw, sink: sink, o: o.withDefaults(), wake: make(chan struct{}, 1)}
}

// MaxStop is how long Run may take to return after its context has ended, if the ListerWatcher does not heed it.
const MaxStop = 3 * request.CallWait

// ErrRunTwice is returned by Run if it was called before.
var ErrRunTwice = errors.New("reflector: Run may be called once; make another with New")

// Run lists and watches until ctx ends or the sink is closed, and returns when
// nothing of it is running any more: nil if ctx ended, the sink's error otherwise. It may be called once.
// A call of a ListerWatcher that does not heed its context is left to itself after five seconds.
func (r *Reflector) Run(ctx context.Context) error {
	r.mu.Lock()
	again := r.running
	r.running = true
	r.mu.Unlock()
	if again {
		return ErrRunTwice
	}
	return newSession(r).run(ctx)
}

// Relist asks for a list for the given reason as soon as possible; it does not wait. If one is in progress,
// another follows it.
func (r *Reflector) Relist(reason Reason) {
	if reason == "" {
		return
	}
	r.mu.Lock()
	r.asked = stronger(r.asked, reason)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Contradicted says that an event cannot follow what the sink held: one about an object with another UID than that
// under its key, or a MODIFIED or DELETED for a key without an object. No history has both, so the server was rewound.
// It returns whether a list for ReasonRewound follows, and does not wait. There is one at most until the connection is
// lost: a server that is merely odd must not be listed in a circle.
//
// The sink calls it only of events that it was given a resourceVersion with, and not of those between BeginReplace and
// EndReplace.
func (r *Reflector) Contradicted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spent {
		return r.rewound
	}
	r.spent, r.rewound = true, true
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

// HeedsContradiction reports whether Contradicted leads to a list at present. A sink asks it before it stores events,
// to store in the same step that a list is due if one of them cannot follow what it held.
func (r *Reflector) HeedsContradiction() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.spent || r.rewound
}

// spend reports that a contradiction leads to a list now, unless another one has since the connection was last lost.
func (r *Reflector) spend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spent {
		return false
	}
	r.spent = true
	return true
}

// lost allows the next contradiction to lead to a list.
func (r *Reflector) lost() {
	r.mu.Lock()
	r.spent = false
	r.mu.Unlock()
}

// rewritten says that a list has compared bodies: the events before it contradict nothing any more.
func (r *Reflector) rewritten() {
	r.mu.Lock()
	r.rewound = false
	r.mu.Unlock()
}

// takeAsked returns the list that Relist or Contradicted asked for, once.
func (r *Reflector) takeAsked() Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.wake:
	default:
	}
	reason := r.asked
	if r.rewound {
		reason = stronger(reason, ReasonRewound)
	}
	r.asked, r.rewound = "", false
	return reason
}

// Status returns a snapshot. Safe at any time.
func (r *Reflector) Status() Status { return r.board.snapshot() }

// Live returns Status.Live. Safe at any time.
func (r *Reflector) Live() bool {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	return r.board.s.Live
}

// LastSyncResourceVersion is Status.ResourceVersion. Safe at any time.
func (r *Reflector) LastSyncResourceVersion() string { return r.board.snapshot().ResourceVersion }
