package reflector

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/seed"
)

// DefaultPageSize is the default of Options.PageSize.
const DefaultPageSize = 2000

// Options are the options of a Reflector. The zero value works.
type Options struct {
	// Name names the reflector in logs. Default: TypeDescription.
	Name string
	// TypeDescription names the type in logs and errors. Default: the type of ExpectedType, such as "*v1.Pod", or
	// "objects".
	TypeDescription string
	// ExpectedType is an example of the objects that the ListerWatcher lists. Objects of other types are not delivered.
	// If the example is unstructured and has a kind, unstructured objects of other kinds are not delivered either.
	// Default: the type is not checked.
	ExpectedType runtime.Object
	// Admit, if set, returns an error for an object that was not requested; that object is then a stray, as an object
	// of another type is. Admit is not called for the object of a DELETED event.
	//
	// Strays are logged, counted in Status.Skipped, shown by Status.Stray, and not delivered. A stray means that the
	// ListerWatcher does not list the Sink's collection, and that stored objects may be missing. So the Sink receives
	// no resourceVersion until a list has no strays. (Strays by Go type are excepted, since a program with another type
	// does not resume.) A list that contains only strays is aborted.
	Admit func(obj runtime.Object) error
	// Shard is the shard selector of the ListerWatcher's requests (metav1.ListOptions.ShardSelector, KEP-5866). A
	// server that does not know the selector, or whose feature gate is off, sends all objects without an error. So the
	// reflector applies the selector to every object and event, deletions included. Objects of other shards are not
	// delivered, and are not strays (Status.Unsharded). Their events advance the reflector, and with the next bookmark
	// the Sink. A list that has only objects of other shards is an empty shard. But if some of so many objects should
	// be of this shard, the ListerWatcher requests another shard, and the list is aborted (ErrStrays). An object that
	// is deleted and created again has another UID and may move to another shard: this shard receives the deletion, the
	// other one the addition. Default: sharding.Everything().
	Shard sharding.Selector
	// PageSize is the maximum limit of a list request. Pages are smaller at the start of a run, if objects are large,
	// and if the link is too slow for larger ones; docs/adr/0003-reflector.md has the rules. Default DefaultPageSize.
	PageSize int64
	// ListMetadata, if set, makes the ListerWatcher's list requests, with the same scope, limit and continue token, for
	// metadata alone. A relist for ReasonExpired, ReasonStore or ReasonListOnly then lists metadata, and fetches only
	// the objects that the Sink does not hold in the listed state (Sink.Known), each by a field selector on the
	// object's name. If more than a quarter of a page must be fetched, that page and all following ones are listed
	// whole. Admit is not called for objects that the Sink holds. A fetched object may be newer than the list, or
	// deleted: the list ends when the watch beside it has reached the resourceVersion of every fetch. A failed fetch is
	// repeated like a page, and the list does not end without it. Probes and look-ups use metadata too. Once refused,
	// or once a fetch has another object as its answer, ListMetadata is not called again in this run, except after 403,
	// 404 and 405, which may be temporary. The time-outs of its calls are those of the ListerWatcher's calls. Default:
	// whole objects.
	ListMetadata func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// MetadataPays, if set, is called before each list that would request metadata instead of whole objects. It returns
	// true if whole objects are so much larger than metadata that fetching changed objects one by one saves traffic.
	// Default: true.
	MetadataPays func(ctx context.Context) bool
	// Verify, if set, is called at every (re)connect before any event of the watch is delivered, and before a list.
	// With Compare it runs beside Compare; otherwise it runs before the watch is opened. Verify compares the attributes
	// of the stored contents (the cluster's id, the codec…) with their present values, and returns the reason for a
	// relist, or "". An error counts as a failed connection, and is followed by a back-off. Verify is called again
	// before its relist is committed, and must not request another relist for the same difference.
	//
	// A call has 90 s. A call that has not returned five seconds after its context has ended is abandoned and counts as
	// an error (ErrOverdue). A panic, with utilruntime.ReallyCrash off, is an error too (ErrPanicked). Verify may be
	// called again while up to four abandoned calls still run.
	//
	// lost is when the last connection was lost or a list became due, by the machine's clock; zero at the first
	// connect. An answer that was requested earlier may be from another server.
	Verify func(ctx context.Context, lost time.Time) (Reason, error)
	// Compare, if set, lists the objects of the server by metadata, in one consistent answer. Compare returns the
	// objects that the Sink holds in another state (UID and resourceVersion), that the Sink does not hold, and that the
	// server does not have. Objects that Admit or Shard would drop are no differences; nor are objects that the Sink
	// has refused in that state. Compare replaces the probe (a list with limit=1) and the look-ups of single objects:
	// the reflector calls Compare once a watch has been accepted, at the start of a run that resumes and after a lost
	// connection. Compare fails with ErrIncomparable if it cannot compare. A call has 90 s, and ten seconds from when
	// its request was sent. Overdue calls and panics count as in Verify. Default: probe and look-ups.
	Compare func(ctx context.Context) (Comparison, error)
	// ComparisonPays, if set, is called before each call of Compare. starts is true at the first connect of a run whose
	// Sink can resume. ComparisonPays returns true if the Sink holds so few objects that Compare costs less than
	// looking up single objects and, if starts, waiting for a bookmark. Default: true.
	ComparisonPays func(ctx context.Context, starts bool) bool
	// Seed, if set, opens contents from elsewhere, such as a snapshot, for a Sink that has no resourceVersion to resume
	// from. The seed's objects replace the first list, and the watch resumes from the seed's resourceVersion, with the
	// same checks of the server's history as after a restart. Seed is called when Run starts, and again once the server
	// has been verified if the first call returned ErrSeedLater. If the server has lost the history since the seed,
	// Seed is called once more, for a seed that was taken later than the time after. If Seed fails, or its result
	// cannot be read, the reflector lists. Seed must return when ctx ends.
	Seed func(ctx context.Context, after time.Time) (*seed.Seed, error)
	// OnError, if set, is called by one goroutine with each error that ended a connection, before the reflector backs
	// off. That includes 410s and errors of a watch that runs beside a list. For each request that does not return
	// after its time-out, OnError is called once with ErrOverdue.
	OnError func(ctx context.Context, err error)
	// OnLive, if set, is called with the new value when Status.Live has changed: by the goroutine that calls the Sink,
	// after Sink.Synced has returned. OnLive must not block.
	OnLive func(live bool)
	// OnContact, if set, is called with each time at which the server confirmed the Sink's objects or sent a change.
	// Status.LastContact is the latest of these times. OnContact must not block.
	OnContact func(at time.Time)
	// RelistSpread is the maximum of the random wait before a list after a 410, if Synced has been called in this run.
	// The Sink can serve its contents meanwhile. The wait is for fleets: an API server that restarts loses its history,
	// and cannot serve a list to every client at once. See docs/fleet.md for a suitable maximum. Status.Err is the 410
	// until the list. After a list less than two minutes ago, a back-off is added to the wait. The wait also delays the
	// lists of a resource that cannot be watched. Default 0: at once.
	RelistSpread time.Duration
	// Limiter, if set, is shared by all reflectors of this process that talk to the same server. Eight reflectors
	// connect and two list at a time, in the order of their requests; a reflector whose last request has failed waits
	// behind the other reflectors. A slot does not count while its request has had no byte of an answer for 250 ms, so
	// a resource that hangs in its conversion webhook does not block the others; at most 64 slots of each kind are
	// exempt in this way.
	//
	// The link is down if a request has no answer (no Status, or a 502, 503 or 504) and no other reflector got an
	// answer meanwhile. After its first failure each reflector backs off by itself. From the second failure on one
	// back-off holds for all, with the same bounds: one reflector tries, and another one after ten seconds if the first
	// reflector hangs. Any answer ends the back-off for all. So an outage costs a process as many requests as one
	// reflector makes, and 300 watches that break together count as one failure. An error that the server answers
	// concerns only the reflector that receives it. A reflector that waits for a slot while the link is down is not
	// live. Default: each reflector backs off by itself.
	Limiter *limiter.Limiter
	// Clock is for tests. Default: the real clock. Time-outs of requests always use the real clock.
	Clock clock.WithTicker
}

func (o Options) withDefaults() Options {
	if o.TypeDescription == "" {
		o.TypeDescription = "objects"
		if o.ExpectedType != nil {
			o.TypeDescription = fmt.Sprintf("%T", o.ExpectedType)
		}
	}
	if o.Name == "" {
		o.Name = o.TypeDescription
	}
	if o.PageSize <= 0 {
		o.PageSize = DefaultPageSize
	}
	if o.Shard == nil {
		o.Shard = sharding.Everything()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}
