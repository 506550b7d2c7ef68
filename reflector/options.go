package reflector

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/limiter"
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
	// Admit, if set, returns why an object is none of those that are asked for: it is a stray too. It is not asked
	// about what a DELETED event brings.
	//
	// Strays are logged, counted in Status.Skipped, shown by Status.Stray, and not delivered. See the package's
	// documentation.
	Admit func(obj runtime.Object) error
	// Shard is the shard selector of the ListerWatcher's requests (metav1.ListOptions.ShardSelector, KEP-5866). Objects of
	// other shards, which come from servers that ignore it, are neither strays nor delivered; see Status.Unsharded.
	// Default: everything.
	Shard sharding.Selector
	// PageSize is the most that a list request asks for. A page is smaller at the start of a run, if its objects are
	// large, or if larger ones do not come over the link; see the package's documentation. Default DefaultPageSize.
	PageSize int64
	// streams is for tests: a list is asked for as a watch that begins with it, as if the server had cut its smallest
	// page.
	streams bool
	// ListMetadata, if set, makes the ListerWatcher's list requests, with the same scope, limit and continue token, for
	// metadata alone. Then a relist for ReasonExpired or ReasonStore asks for that first, and fetches the bodies of those
	// objects that the sink does not hold in the listed state (Sink.Known), each by a field selector on its name; or, if
	// they are more than a quarter of a page, that page and those after it whole. What is held has been admitted, so Admit
	// is not asked about it. Probes, and look-ups without Lookup, are asked for by metadata too. A ListMetadata that is
	// refused is not called again in this run, but for 403, 404 and 405, which may pass. Bounded as the ListerWatcher's
	// own requests. Default: whole objects.
	ListMetadata func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// MetadataPays, if set, is asked before each such list whether bodies are so much larger than metadata that it is
	// worth an additional request for each that is fetched. Default: yes.
	MetadataPays func(ctx context.Context) bool
	// Verify, if set, is called at every (re)connect before anything of the watch is delivered, beside Same or else before
	// the watch is opened, and before a list: it compares what the contents depend on (the cluster's id, the codec…) with
	// what is stored, and returns the reason for a relist, or none. An error counts as a failed connection: back off, try
	// again. It is called again before its relist is committed, and must not ask for another one for what that relist
	// repairs. It has 90 s: a call that has not returned five seconds after its context has ended is left to itself and
	// counts as an error (ErrOverdue), and so does a panic, with utilruntime.ReallyCrash off (ErrPanicked). It may be
	// called again while such a call goes on; while five do, it is not.
	Verify func(ctx context.Context) (Reason, error)
	// Lookup, if set, reads the identity of one object as the server has it
	// now (found is false if it has none), preferably by metadata. It must be a consistent read, not
	// one from a cache. Its calls are bounded as those of Verify. Default: a list of
	// ListMetadata, or else of the ListerWatcher, with a field selector on name and namespace.
	Lookup func(ctx context.Context, key string) (ref entry.ObjectRef, found bool, err error)
	// Same, if set, reports whether the server has exactly the objects that the sink holds, each in the same state (UID
	// and resourceVersion), and the resourceVersion of the consistent list that it has made for that, if it has made one.
	// It is asked once, of the first watch that is accepted in a run that resumes, in the place of the probe, and has a
	// second: a yes stands for the look-ups and the drain. Whatever else it says, or if it fails, they are made. Bounded
	// as Verify, otherwise. Not asked if Checkpoint says Large, or names objects as LeftOut. Default: probe, look-ups and
	// drain.
	Same func(ctx context.Context) (resourceVersion string, same bool, err error)
	// OnError is called, by one goroutine, with each error that ended a connection, before the reflector backs off: also
	// that of a watch beside a list, a 410 too; and once with each request that is overdue (ErrOverdue), while it goes on.
	OnError func(ctx context.Context, err error)
	// OnLive, if set, is called when Status.Live has changed, by the goroutine that calls the sink, after Sink.Synced. It
	// must not block.
	OnLive func(live bool)
	// OnContact, if set, is called when the server was heard: a successful response, an event, a bookmark.
	// It must not block.
	OnContact func()
	// RelistSpread is the most that a list waits for after a 410, at random, if Synced has been called in this run, so
	// that what is held can be served meanwhile: an API server that restarts loses its history, and a fleet that lists at
	// once is more than it can serve. It is for fleets; see docs/fleet.md for how long. Status.Err is the 410 until the
	// list. The back-off after a list less than two minutes ago comes on top. Default 0: at once.
	RelistSpread time.Duration
	// Limiter, if set, is shared by all reflectors of this process that talk to the same server: while it is down one of
	// them tries, in turn, and never more than a few connect, or list, at a time. Default: this reflector's back-off is
	// its own.
	Limiter *limiter.Limiter
	// Clock is for tests. Default: the real clock. Requests time out by real time.
	Clock clock.WithTicker
}

// withDefaults fills in what is not set.
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
