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

// DefaultPageSize is Options.PageSize if that is 0.
const DefaultPageSize = 2000

// Options are the options of New. The zero value works.
type Options struct {
	// Name appears in logs. Default: the type's description.
	Name string
	// TypeDescription names the type in logs and errors, such as "*v1.Pod". Default: that of
	// ExpectedType, or "objects".
	TypeDescription string
	// ExpectedType is an example of the objects. Others, and unstructured ones of another
	// kind if the example has one, are strays. Default: not checked.
	ExpectedType runtime.Object
	// Admit, if set, returns an error for an object that was not requested: it is a stray too. It is not called for the
	// object of a DELETED event.
	//
	// Strays are logged, counted in Status.Skipped, shown by Status.Stray, and not delivered. See the package's
	// documentation.
	Admit func(obj runtime.Object) error
	// Shard is the shard selector of the ListerWatcher's requests (metav1.ListOptions.ShardSelector, KEP-5866). Objects of
	// other shards, which come from servers that ignore it, are neither strays nor delivered; see Status.Unsharded.
	// Default: everything.
	Shard sharding.Selector
	// PageSize is the maximum limit of a list request. A page is smaller at the start of a run, if its objects are large,
	// or if larger pages do not come over the link; see the package's documentation. Default DefaultPageSize.
	PageSize int64
	// streams is for tests: lists are requested as a watch that begins with the list, as if the server had cut off its
	// smallest page.
	streams bool
	// ListMetadata, if set, makes the ListerWatcher's list requests, with the same scope, limit and continue token, for
	// metadata alone. A relist for ReasonExpired, ReasonStore or ReasonListOnly then lists metadata, and fetches only the
	// objects that the sink does not hold in the listed state (Sink.Known), each by a field selector on its name. If they
	// are more than a quarter of a page, that page and those after it are listed whole. Admit is not called for objects
	// that the sink holds. Probes and look-ups use metadata too. A ListMetadata that is refused is not called again in
	// this run, except after 403, 404 and 405, which may be temporary. Its calls are bounded as the ListerWatcher's.
	// Default: whole objects.
	ListMetadata func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// MetadataPays, if set, is called before each list by metadata. It returns whether bodies are so much larger than
	// metadata that an additional request for each fetched object is worth it. Default: true.
	MetadataPays func(ctx context.Context) bool
	// Verify, if set, is called at every (re)connect before any event of the watch is delivered (beside Compare, or else
	// before the watch is opened), and before a list. It compares what the contents depend on (the cluster's id, the
	// codec…) with what is stored, and returns the reason for a relist, or "". An error counts as a failed connection:
	// back off, try again. It is called again before its relist is committed, and must not request another one for what
	// that relist repairs. It has 90 s. A call that has not returned five seconds after its context has ended is abandoned
	// and counts as an error (ErrOverdue). So does a panic, with utilruntime.ReallyCrash off (ErrPanicked). It may be
	// called again while an abandoned call still runs, unless five of them do.
	//
	// lost is when the last connection was lost or a list became due, by the machine's clock; zero at the first connect.
	// An answer that was requested before that may be another server's.
	Verify func(ctx context.Context, lost time.Time) (Reason, error)
	// Compare, if set, lists the objects of the server by metadata, in one consistent answer, and returns which of them
	// the sink holds in another state (UID and resourceVersion), does not hold, or holds alone. Objects that Admit or
	// Shard would keep from the sink are no differences; nor are those that the sink has refused in that state. It is
	// called after a watch has been accepted at the start of a run that resumes, or after a lost connection, in place of
	// the probe and the look-ups. It fails with ErrIncomparable if it cannot compare. It has 90 s, more on a thin link,
	// and is else bounded as Verify. Default: probe and look-ups.
	Compare func(ctx context.Context) (Comparison, error)
	// ComparisonPays, if set, is called before each Compare. It returns whether the sink holds so few objects that Compare
	// costs less than a probe, five look-ups, and, at the start of a run, the wait for a bookmark. Default: true.
	ComparisonPays func(ctx context.Context, starts bool) bool
	// Seed, if set, opens contents that somebody else has kept, to begin with where the sink has nothing to resume: they
	// are applied in place of the first list, and the watch resumes from them, under the same checks as after a restart.
	// It is called when Run starts, and, if that has failed with ErrSeedLater, once the server has been verified. If the
	// server's history does not go back that far, it is called once more, for one that was taken after the first. If it
	// fails, or what it returns cannot be read, everything is listed. It must return when ctx ends.
	Seed func(ctx context.Context, after time.Time) (*seed.Seed, error)
	// OnError, if set, is called by one goroutine with each error that ended a connection, before the reflector backs off.
	// That includes errors of a watch beside a list, and 410s. It is called once, too, with ErrOverdue for each request
	// that is overdue, while that request goes on.
	OnError func(ctx context.Context, err error)
	// OnLive, if set, is called when Status.Live has changed, by the goroutine that calls the sink, after Sink.Synced. It
	// must not block.
	OnLive func(live bool)
	// OnContact, if set, is called with a time when Status.LastContact moves to it, or stays later. It must not block.
	OnContact func(at time.Time)
	// RelistSpread is the maximum of the random wait before a list after a 410, if Synced has been called in this run, so
	// that the contents can be served meanwhile. It is for fleets: an API server that restarts loses its history, and
	// cannot serve a fleet that lists at once. See docs/fleet.md for how long. Status.Err is the 410 until the list. The
	// back-off after a list less than two minutes ago is added to it. The lists of a resource that cannot be watched are
	// delayed likewise. Default 0: at once.
	RelistSpread time.Duration
	// Limiter, if set, is shared by all reflectors of this process that talk to the same server. While the server is down
	// one reflector at a time tries to connect; otherwise only a few connect or list at a time. Default: each reflector
	// backs off by itself.
	Limiter *limiter.Limiter
	// Clock is for tests. Default: the real clock. Time-outs of requests always use the real clock.
	Clock clock.WithTicker
}

// withDefaults returns o with the defaults of the fields that are not set.
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
