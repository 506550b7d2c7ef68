package reflector

import (
	"maps"
	"sync"
	"time"

	"github.com/larder-dev/larder/reflector/internal/gate"
)

// Status is the state of a reflector at one moment.
type Status struct {
	State State
	// ResourceVersion is the resourceVersion of the last event, bookmark or list: delivered to the sink, or of another
	// shard's object.
	ResourceVersion string
	// NotResumable is true if the server's resourceVersions cannot be compared (some aggregated APIs). Then
	// ResourceVersion only resumes watches of this run: the sink never receives it, so every start lists.
	NotResumable bool
	// ListOnly is true while the server lists the resource and refuses to watch it (403, 404, 405). The contents are those
	// of the last list, and another list follows every 30 to 60 seconds. Err is the answer to the watch.
	ListOnly bool
	// Live is true if the server's state at the last connect has been delivered, a watch was open then, and the connection
	// has not been lost since. It stays true when a watch ends at its own time-out and another follows.
	Live bool
	// LastContact is when the server last confirmed the contents as its present state, or moved them on by an event, a
	// bookmark or a list; zero if never in this run. An answer that shows a higher resourceVersion does not count. A list
	// without a watch beside it counts as of the request for its first page.
	LastContact time.Time
	// Lists counts the lists that were begun in this run, Pages their page requests, and Watches the watch requests.
	// Probes counts all requests with limit=1: the requests for the server's resourceVersion, the Fetches and the Lookups.
	Lists   int
	Pages   int
	Watches int
	Probes  int
	// Comparisons counts the calls of Options.Compare in this run.
	Comparisons int
	// Fetches counts the objects that lists by metadata have fetched one by one; Probes counts them too.
	Fetches int
	// Lookups counts the requests for single objects that compare a stored object with the server's.
	Lookups int
	// Resumes counts watches that the server resumed at the stored resourceVersion; the first watch after a list does
	// not count. An accepted watch may still receive a 410 as its first event. So it counts only once its first event
	// or bookmark has arrived, it has ended in order, the server was at that resourceVersion itself, or Options.Compare
	// has found no difference.
	Resumes int
	// SeedErr is why Options.Seed has not replaced the first list; nil if it has, or has not been called.
	SeedErr error
	// Relists counts lists by reason, without ReasonCold. A list that was aborted and begun again counts twice.
	Relists map[Reason]int
	// LastRelist is the reason of the newest list that Relists counts.
	LastRelist Reason
	// NoLookups is why the reflector cannot request single objects; "" while it can. Without these requests, a server
	// that was restored from a backup and has since passed the stored resourceVersion goes unnoticed.
	NoLookups string
	// Skipped counts events and items that were not delivered: objects of another type or scope than requested, and
	// malformed objects or events.
	Skipped int
	// Stray is the error of the newest object of an unexpected type or scope; see Options.Admit. It stays until a list
	// has only expected objects.
	Stray error
	// Unsharded explains why the server sends objects of other shards than Options.Shard, which are dropped. It is set by
	// the first of these objects, and cleared by a list without any.
	Unsharded string
	// Err is why the connection is down or degraded, or which call is overdue (ErrOverdue); nil while it is healthy.
	Err error
}

// board holds the Status of a Reflector. It may be read and updated on any goroutine.
type board struct {
	mu sync.Mutex
	s  Status // guarded by mu
}

// update calls f to change the Status, while it holds the lock.
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

// setDropped sets the fields that describe the objects that were not delivered.
func (b *board) setDropped(s gate.Dropped) {
	b.update(func(st *Status) { st.Skipped, st.Stray, st.Unsharded = s.Skipped, s.Stray, s.Unsharded })
}
