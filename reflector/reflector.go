package reflector

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector/internal/request"
)

// Reflector lists and watches one resource into a Sink.
type Reflector struct {
	lw    cache.ListerWatcherWithContext
	sink  Sink
	o     Options
	board board

	mu sync.Mutex
	// asked is the reason of the list that Relist has requested; "" if none. mu guards asked.
	asked Reason
	// rewound is true if Contradicted has requested a list. mu guards rewound.
	rewound bool
	// contradicted is true after a contradicting event, until the connection is lost. mu guards contradicted.
	contradicted bool
	running      bool
	// wake receives a token, at most one, when a list is requested.
	wake chan struct{}
}

// New returns a Reflector. It starts no goroutine.
func New(lw cache.ListerWatcherWithContext, sink Sink, o Options) *Reflector {
	return &Reflector{lw: lw, sink: sink, o: o.withDefaults(), wake: make(chan struct{}, 1)}
}

// MaxStop is how long Run may take to return after its context has ended, if the ListerWatcher ignores the context.
const MaxStop = 3 * request.CallWait

// ErrRunTwice is returned by Run if it was called before.
var ErrRunTwice = errors.New("reflector: Run may be called once; make another with New")

// Run lists and watches until ctx ends or the Sink is closed, and returns when its goroutines have ended: nil if ctx
// ended, the Sink's error otherwise. It may be called once; later calls return ErrRunTwice. It abandons a call of a
// ListerWatcher that has not returned five seconds after its context has ended.
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

// Relist requests a list for the given reason as soon as possible, and returns at once. If a list is in progress,
// another one follows it.
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

// Contradicted reports an event that cannot follow the Sink's contents: its object has another UID than the stored
// object of that key, or it is a MODIFIED or DELETED for a key without an object. That shows that the server was
// restored from a backup. Contradicted returns at once, with whether a list for ReasonRewound follows. At most one such
// list follows per connection, so an inconsistent server does not cause endless lists.
//
// The Sink calls Contradicted only for events that it received with a resourceVersion, and not for events between
// BeginReplace and EndReplace.
func (r *Reflector) Contradicted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.contradicted {
		return r.rewound
	}
	r.contradicted, r.rewound = true, true
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

// AcceptsContradiction reports whether Contradicted would lead to a list now. A Sink calls it before it stores events:
// if an event contradicts the contents, the Sink can store in the same transaction that a list is due.
func (r *Reflector) AcceptsContradiction() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.contradicted || r.rewound
}

// firstContradiction reports whether no event since the last loss of the connection has contradicted the stored
// objects. Only the first contradicting event of a connection may cause a list.
func (r *Reflector) firstContradiction() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.contradicted {
		return false
	}
	r.contradicted = true
	return true
}

// lost is called when the connection is lost. The next contradicting event may then cause a list again.
func (r *Reflector) lost() {
	r.mu.Lock()
	r.contradicted = false
	r.mu.Unlock()
}

// rewritten is called after a list that replaces every stored object. It cancels a list that Contradicted has
// requested, because the contradicting event was about the objects before this list.
func (r *Reflector) rewritten() {
	r.mu.Lock()
	r.rewound = false
	r.mu.Unlock()
}

// takeAsked returns the reason of the list that Relist or Contradicted has requested, and clears the request.
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

// Status returns a copy of the current status. Any goroutine may call it.
func (r *Reflector) Status() Status { return r.board.snapshot() }

// Live returns Status.Live. Any goroutine may call it.
func (r *Reflector) Live() bool {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	return r.board.s.Live
}

// LastSyncResourceVersion returns Status.ResourceVersion. Any goroutine may call it.
func (r *Reflector) LastSyncResourceVersion() string { return r.board.snapshot().ResourceVersion }
