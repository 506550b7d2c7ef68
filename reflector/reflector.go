package reflector

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
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
	// contradicted is true after a contradicting event, until the connection is lost. mu guards contradicted and
	// running.
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
const MaxStop = 3 * callWait

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
// another one follows it, unless it has the same reason and has not called Sink.BeginReplace yet.
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

// begun drops a request for a list with this reason: such a list has begun.
func (r *Reflector) begun(reason Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == reason {
		r.asked = ""
	}
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

// Checkpoint describes the contents of the Sink when the reflector starts.
type Checkpoint struct {
	// ResourceVersion is the resourceVersion from which the new run watches; "" if the run must list first.
	ResourceVersion string
	// Relist is the reason why the Sink's objects must be listed before Sink.Synced, although they can be served
	// meanwhile; "" if the watch can resume.
	Relist Reason
	// Newest lists a few stored objects with the highest resourceVersions. The reflector compares them with the
	// server's objects, to detect a server that was restored from a backup. May be empty.
	Newest []entry.ObjectRef
	// LeftOut lists objects that were delivered to the Sink in this state but could not be stored. The reflector
	// requests these objects once the watch has caught up with the server, and delivers them before Synced.
	LeftOut []entry.ObjectRef
}

// Sink receives the stream of lists and events. The reflector calls a Sink from one goroutine, in order. Each method
// may block while the Sink cannot accept more. A method returns an error only if ctx has ended or the Sink is closed
// for good; the reflector then stops.
type Sink interface {
	// Checkpoint returns the state of the stored contents: where a watch can resume, or why a list is due. The
	// reflector calls Checkpoint once, when Run starts.
	Checkpoint(ctx context.Context) (Checkpoint, error)

	// Event delivers Added, Modified or Deleted, and the highest resourceVersion so far. The resourceVersion is "" if
	// it cannot be compared, and for an object of Checkpoint.LeftOut that is delivered again.
	//
	// Between BeginReplace and EndReplace an event replaces the pages' item of the same key, even if that item arrives
	// later.
	Event(ctx context.Context, t watch.EventType, obj runtime.Object, resourceVersion string) error
	// Bookmark reports that all events up to resourceVersion have been delivered. No list is then in progress.
	Bookmark(ctx context.Context, resourceVersion string) error

	// BeginReplace starts a list, which replaces the Sink's objects.
	BeginReplace(ctx context.Context, reason Reason) error
	// Page delivers the next items of the list. At most one more page is fetched meanwhile, so a list needs bounded
	// memory if Page returns only once the items are stored.
	Page(ctx context.Context, items []runtime.Object) error
	// Known delivers a page of the list by reference. An object that the Sink holds with the same UID and
	// resourceVersion counts as listed, as if Page had delivered it. Known returns the other references. Page delivers
	// their objects later, unless they have been deleted since or the list is aborted. Known is called only with
	// Options.ListMetadata.
	Known(ctx context.Context, refs []entry.ObjectRef) (missing []entry.ObjectRef, err error)
	// EndReplace ends the list: the pages and events since BeginReplace are the state at resourceVersion. The
	// resourceVersion is "" if the server's cannot be compared: then a watch cannot resume from the state.
	EndReplace(ctx context.Context, resourceVersion string) error
	// AbortReplace gives up the list in progress. Another list follows, or the reflector stops because ctx has ended.
	AbortReplace(ctx context.Context) error

	// MustList reports that the contents cannot be resumed, for a reason for which Reason.Lasts is true: a list
	// follows. If Run ends before that list, the next Checkpoint has to request a list. MustList is never called
	// between BeginReplace and EndReplace.
	MustList(ctx context.Context, reason Reason) error

	// Synced reports that the Sink has received the server's state at the last connect: after each list, and after each
	// resumed watch once the watch has caught up.
	Synced(ctx context.Context) error
}

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
	// Lookups. Comparisons counts the calls of Options.Compare.
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
	// Skipped counts events and items that were not delivered: objects of another type or scope than requested, and
	// malformed objects or events.
	Skipped int
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

func (b *board) setDropped(s dropped) {
	b.update(func(st *Status) { st.Skipped, st.Stray, st.Unsharded = s.Skipped, s.Stray, s.Unsharded })
}

// These errors are the reasons why a connection is down. Status.Err and the errors of Options.OnError wrap them.
var (
	// ErrPanicked: the ListerWatcher, Options.Verify or Options.Compare panicked, and utilruntime.ReallyCrash is off.
	ErrPanicked = base.ErrPanicked
	// ErrOverdue: a call has not returned although its context has ended. The reflector waits for an overdue call of
	// the ListerWatcher; it abandons an overdue call of Options.Verify or Options.Compare.
	ErrOverdue = base.ErrOverdue
	// ErrPutOff: until the request timed out, the server's only answer was to retry later (Retry-After).
	ErrPutOff = errors.New("the server puts the request off")
	// ErrShortWatch: the server ended a watch without an error, but right after it began.
	ErrShortWatch = errors.New("the watch ended right after it began")
	// ErrSilent: neither events nor bookmarks arrived on the watch for minutes, although the server's resourceVersion
	// has changed.
	ErrSilent = errors.New("the watch is silent although the server has moved on: the connection is taken for dead")
)

// ErrStrays: the server sent an object of another type or scope than requested; Status.Stray wraps this error. A list
// fails with ErrStrays if all its objects had another type or scope, or were of other shards.
var ErrStrays = errors.New("something else is listed than was asked for")

func isDenied(err error) bool { return errors.Is(err, ErrStrays) || isForbidden(err) }
