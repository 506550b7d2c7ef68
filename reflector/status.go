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
	// ResourceVersion is the resourceVersion of the last event, bookmark or list that was delivered to the Sink, or of
	// an event of another shard.
	ResourceVersion string
	// NotResumable is true if the server's resourceVersions cannot be compared (some aggregated APIs). Then
	// ResourceVersion only resumes watches of this run. The Sink never receives it, so every start lists.
	NotResumable bool
	// ListOnly is true while the server lists the resource and refuses to watch it (403, 404, 405). The contents are
	// those of the last list, and another list follows every 30 to 60 seconds. Err is the answer to the watch.
	ListOnly bool
	// Live is true if the server's state at the last connect has been delivered, a watch was open then, and the
	// connection has not been lost since. Live stays true when a watch ends at its own time-out and another follows.
	Live bool
	// LastContact is when the server last confirmed the contents as its present state, or sent an event, a bookmark or
	// a list; zero if never in this run. An answer that shows a higher resourceVersion does not count. A list without a
	// watch beside it counts as of the request for its first page.
	LastContact time.Time
	// Lists counts the lists that were begun in this run, Pages their page requests, and Watches the watch requests.
	// Probes counts all requests with limit=1: the requests for the server's resourceVersion, the Fetches and the
	// Lookups.
	Lists       int
	Pages       int
	Watches     int
	Probes      int
	Comparisons int
	// Fetches counts the objects that lists by metadata have fetched one by one.
	Fetches int
	// Lookups counts the requests for single objects that compare a stored object with the server's.
	Lookups int
	// Resumes counts watches that the server resumed at the stored resourceVersion; the first watch after a list does
	// not count. An accepted watch may still receive a 410 as its first event. So a watch counts only once its first
	// event or bookmark has arrived, it has ended in order, the server was at that resourceVersion itself, or
	// Options.Compare has found no difference.
	Resumes int
	// SeedErr is why Options.Seed has not replaced the first list; nil if Seed was not called or has succeeded.
	SeedErr error
	// Relists counts lists by reason, without ReasonCold. A list that was aborted and begun again counts twice.
	Relists    map[Reason]int
	LastRelist Reason
	// NoLookups is why the reflector cannot request single objects; "" while it can. Without these requests, the
	// reflector does not notice a server that was restored from a backup and whose resourceVersion is above the stored
	// one again.
	NoLookups string
	Skipped   int
	// Stray is the error of the newest object of an unexpected type or scope, until a list has only expected objects.
	Stray error
	// Unsharded explains why the server sends objects of other shards than Options.Shard, which are dropped. A list
	// without objects of other shards clears Unsharded.
	Unsharded string
	// Err is why the connection is down or degraded, or which call is overdue (ErrOverdue); nil while it is healthy.
	Err error
}

type board struct {
	mu sync.Mutex
	s  Status
}

func (b *board) update(f func(s *Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.s)
}

func (b *board) snapshot() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.s
	s.Relists = maps.Clone(b.s.Relists)
	return s
}

func (b *board) setDropped(s gate.Dropped) {
	b.update(func(st *Status) { st.Skipped, st.Stray, st.Unsharded = s.Skipped, s.Stray, s.Unsharded })
}
