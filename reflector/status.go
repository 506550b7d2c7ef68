package reflector

import (
	"github.com/larder-dev/larder/reflector/internal/gate"
	"maps"
	"sync"
	"time"
)

// Status is a snapshot of a reflector.
type Status struct {
	State State
	// ResourceVersion is the last one delivered to the sink, or of an object of another shard that came after that.
	ResourceVersion string
	// NotResumable is true while the server's resourceVersions cannot be compared (some aggregated APIs):
	// they are never delivered, so every start lists.
	NotResumable bool
	// Live: everything that the server had at the last contact has been delivered, a watch was open then, and the
	// connection has not been lost since. A watch that ends in order at its own time-out, and is followed by another, does
	// not end it.
	Live bool
	// LastContact is when the server last answered with success or sent something; zero if never in this run.
	LastContact time.Time
	// Lists counts the lists that were begun in this run, Pages the requests that they took, and Watches those for
	// watches. Requests with limit=1 are counted apart, as Probes: those for the server's resourceVersion, the Fetches
	// and, without Options.Lookup, those for identities.
	Lists   int
	Pages   int
	Watches int
	Probes  int
	// Fetches counts the objects that a list by metadata has fetched one by one; each is one of Probes too.
	Fetches int
	// Lookups counts the identities that were read, by whatever means.
	Lookups int
	// Resumes counts watches that the server took up at a resourceVersion we held; the first watch after a list is not one
	// of them. One is counted once it is known to hold, and never taken back: when the first event or bookmark has come,
	// when it ended in order, when the server was at that resourceVersion itself, or when Options.Same has said yes. Until
	// then an accepted watch may still be refused by a 410 in its stream.
	Resumes int
	// Relists counts lists by reason, ReasonCold apart; one that had to be given up and begun again counts twice.
	Relists map[Reason]int
	// LastRelist is the reason of the newest one.
	LastRelist Reason
	// NoLookups is why objects cannot be looked up one by one, so that a rewound server which has overtaken us would
	// not be noticed; empty while they can, as far as it is known.
	NoLookups string
	// Skipped counts events and items that were not delivered: strays, and what could not be understood.
	Skipped int
	// Stray is why the newest stray was not delivered; see Options.Admit. It stays until a list had none.
	Stray error
	// Unsharded is why objects of other shards than Options.Shard's come, which are left out; empty while none does. It
	// stays until a list had none.
	Unsharded string
	// Err is why the connection is down or degraded, or which call is overdue (ErrOverdue); nil while it is healthy.
	Err error
}

// board is the Status that everybody may read and the session writes.
type board struct {
	mu sync.Mutex
	s  Status // guarded by mu
}

// update changes the status under the lock.
func (b *board) update(f func(s *Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.s)
}

// snapshot returns a copy that shares nothing.
func (b *board) snapshot() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.s
	s.Relists = maps.Clone(b.s.Relists)
	return s
}

// passedBy shows what was not delivered.
func (b *board) passedBy(s gate.Said) {
	b.update(func(st *Status) { st.Skipped, st.Stray, st.Unsharded = s.Skipped, s.Stray, s.Unsharded })
}
