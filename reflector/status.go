package reflector

import (
	"maps"
	"sync"
	"time"

	"github.com/larder-dev/larder/reflector/internal/gate"
)

// Status is a snapshot of a reflector.
type Status struct {
	State State
	// ResourceVersion is that of the last event, bookmark or list: delivered to the sink, or of another shard's object.
	ResourceVersion string
	// NotResumable is true if the server's resourceVersions cannot be compared (some aggregated APIs). Then
	// ResourceVersion only resumes watches of this run: the sink never gets it, so every start lists.
	NotResumable bool
	// ListOnly is true while the server lists the resource and refuses to watch it (403, 404, 405): the state is that of
	// the last list, and another follows every 30 to 60 seconds. Err is the answer to the watch.
	ListOnly bool
	// Live is true if everything that the server had at the last connect has been delivered, a watch was open then, and
	// the connection has not been lost since. It stays true when a watch ends at its own time-out and another follows.
	Live bool
	// LastContact is when the server last confirmed the objects held as its present state, or moved them on by an event,
	// a bookmark or a list; zero if never in this run. An answer that shows a higher resourceVersion does not count. A
	// list without a watch beside it counts as of the request for its first page.
	LastContact time.Time
	// Lists counts the lists that were begun in this run, Pages their page requests, and Watches the watch requests.
	// Requests with limit=1 are counted as Probes instead: those for the server's resourceVersion, the Fetches and the
	// Lookups.
	Lists   int
	Pages   int
	Watches int
	Probes  int
	// Comparisons counts the calls of Options.Compare.
	Comparisons int
	// Fetches counts the objects that a list by metadata has fetched one by one; Probes counts them too.
	Fetches int
	// Lookups counts the look-ups of single objects.
	Lookups int
	// Resumes counts watches that the server resumed at a resourceVersion we held, without the first watch after a list.
	// An accepted watch may still get a 410 as its first event. So it counts only once its first event or bookmark has
	// come, it has ended in order, the server was at that resourceVersion itself, or Options.Compare has found nothing
	// that differs.
	Resumes int
	// SeedErr is why Options.Seed has not spared the first list; nil if it has, or has not been called.
	SeedErr error
	// Relists counts lists by reason, without ReasonCold. A list that was given up and begun again counts twice.
	Relists map[Reason]int
	// LastRelist is the reason of the last of them.
	LastRelist Reason
	// NoLookups is why objects cannot be looked up one by one: a server that was rewound and has overtaken us would not be
	// noticed. Empty unless a look-up has shown that.
	NoLookups string
	// Skipped counts events and items that were not delivered: strays, and objects or events that are malformed.
	Skipped int
	// Stray is the error of the newest stray; see Options.Admit. It stays until a list has no strays.
	Stray error
	// Unsharded is why the server sends objects of other shards than Options.Shard, which are left out; empty if it sent
	// none. It stays until a list has none.
	Unsharded string
	// Err is why the connection is down or degraded, or which call is overdue (ErrOverdue); nil while it is healthy.
	Err error
}

// board holds the Status. Any goroutine may read it; the session writes it.
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

// snapshot returns a copy that shares no memory with the Status.
func (b *board) snapshot() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.s
	s.Relists = maps.Clone(b.s.Relists)
	return s
}

// passedBy sets the fields that describe the objects that were not delivered.
func (b *board) passedBy(s gate.Said) {
	b.update(func(st *Status) { st.Skipped, st.Stray, st.Unsharded = s.Skipped, s.Stray, s.Unsharded })
}
