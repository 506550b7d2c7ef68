package informer

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/internal/asks"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/indexer"
)

// sharedInformer is the part that all Informers on one collection share: the collection, its reflector and its process
// loop. Each Informer has its own handlers.
//
//	reflector ──► sink ──► fifo ──► loop ──► store
//	                                  └────► handlers of each Informer
//
// New makes it for the first Informer, and attaches later ones. Its run begins with the first Informer that runs, and
// ends with the last one attached, which waits for that end; see attach.go.
//
// The process loop is one goroutine and the only writer. For each batch of the queue it
//
//  1. turns the deltas into operations, and waits while the store has too many dirty changes,
//  2. takes deltasMu,
//  3. applies them to the store in one step with the resourceVersion of the last delta; the store commits them later
//     (store.Options.CommitInterval),
//  4. queues the changes for every handler, in order,
//  5. releases deltasMu,
//  6. acknowledges the batch, which may complete the first sync.
//
// If step 3 fails, nothing has changed and no handler has been called: the process loop releases deltasMu, waits, and
// retries the batch. The end of a list takes one round for each transaction of the store, which bounds the memory. The
// store retries a failed commit, and watchCommits reports it; the process loop continues until too many changes are
// dirty. Pages of stored objects are queued under deltasMu too, consistent with the changes queued after them.
type sharedInformer struct {
	// o and lw are the options and the ListerWatcher of the first Informer.
	o  Options
	lw cache.ListerWatcher
	// source is listed and watched. It is lw, or, if undecoded is true, a ListerWatcher that reads lw's answers without
	// decoding them.
	source    cache.ListerWatcherWithContext
	undecoded bool
	// encoding chooses the encoding of requests, protobuf or JSON; nil if the client's configuration decides.
	encoding *attributes.Encoding
	example  runtime.Object
	store    store.Interface
	indexer  *indexer.Indexer
	// unstarted limits the log line about reads before the start to one.
	unstarted sync.Once
	// file and collection are nil if the objects are in memory only; memoryOnly says why.
	file       file
	collection collection
	memoryOnly string
	// attrs are the attributes stored with the objects, such as codec and Go types, without the server's.
	attrs    entry.Attributes
	clock    clock.WithTicker
	queue    *fifo.Queue
	asks     asks.Asks
	detector cache.MutationDetector
	auditor  *audit.Auditor

	lastContact atomic.Int64 // lastContact is in Unix nanoseconds; 0 if there was no contact in this run
	skipped     atomic.Int64
	sync        *syncing
	seeds       *seeds
	health      health

	distribution *distribution
	listBegun    bool // listBegun is true once a list has begun in this run; deltasMu guards it

	cluster clusterInUse

	indexMu base.Mutex
	// indexVersions holds the versions of the Informers' index functions; guarded by indexMu.
	indexVersions map[string]string

	opened chan struct{} // opened is closed when open has failed, or has succeeded and attached has an Informer

	mu sync.Mutex // mu is taken before Informer.mu; it guards the fields below except done
	// attached holds the Informers that have not ended. joined holds the attached Informers whose handlers get changes.
	// Both are in the order of attaching. The slices are replaced, never modified.
	attached, joined []*Informer
	ending           bool            // ending is true once the last Informer was detached, or the run is ending
	stuck            bool            // stuck is true if the run has ended and the loop is still in a write
	ctx              context.Context // ctx is the context of the run; nil before
	cancel           context.CancelCauseFunc
	done             chan struct{}        // done is closed when the run has ended
	transform        cache.TransformFunc  // transform is constant once the run has begun
	reflector        *reflector.Reflector // reflector is nil before the run
}

func newShared(i *Informer, lw cache.ListerWatcher) *sharedInformer {
	s := &sharedInformer{
		o: i.o, lw: lw, example: i.example, clock: i.clock,
		detector: cache.NewCacheMutationDetector(i.o.ObjectDescription), queue: fifo.New(fifo.Options{}),
		indexMu: base.NewMutex(), indexVersions: map[string]string{},
		opened: make(chan struct{}), done: make(chan struct{}),
	}
	s.seeds, s.cluster.changed = &seeds{i: s}, make(chan struct{})
	s.health.unguarded = unguardedBy(s.o)
	s.sync = newSyncing(s.notifySynced)
	return s
}

func (i *sharedInformer) Identity() entry.Identity {
	id, err := i.o.Identity.Canonical()
	if err != nil { // open fails with an invalid identity
		return i.o.Identity
	}
	return id
}

func (i *sharedInformer) attachedNow() []*Informer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.attached
}

func (i *sharedInformer) joinedNow() []*Informer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.joined
}

func (i *sharedInformer) notifySynced() {
	for _, member := range i.joinedNow() {
		member.synced.complete()
	}
}

func (i *sharedInformer) hasHandlers() bool {
	return slices.ContainsFunc(i.joinedNow(), func(member *Informer) bool { return member.processor.Any() })
}

func (i *sharedInformer) currentReflector() *reflector.Reflector {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reflector
}

func (i *sharedInformer) lastSyncResourceVersion() string {
	r := i.currentReflector()
	if r == nil {
		return ""
	}
	if rv := r.LastSyncResourceVersion(); rv != "" {
		return rv
	}
	return i.indexer.LastStoreSyncResourceVersion()
}

// holdsStateLocked reports whether handlers may get the stored objects. If an earlier process was interrupted in a cold
// start, it returns false until the first list begins, because that list replaces the incomplete state. The caller
// holds deltasMu.
func (i *sharedInformer) holdsStateLocked() (bool, error) {
	if i.listBegun {
		return true, nil
	}
	info, err := i.store.Info(context.Background())
	return info.Complete, err
}

func (i *sharedInformer) removeJoined(member *Informer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.joined = without(i.joined, member)
}

func without(all []*Informer, one *Informer) []*Informer {
	return slices.DeleteFunc(slices.Clone(all), func(other *Informer) bool { return other == one })
}

// addJoined adds an Informer to joined. The caller holds deltasMu.
func (i *sharedInformer) addJoined(member *Informer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.joined = append(slices.Clip(i.joined), member)
}

// file is the part of *store.Store that an informer uses.
type file interface {
	Err() error
	Failed() <-chan struct{}
	DamageFound() <-chan struct{}
	Closing() <-chan struct{}
	CommitErr() error
	Committed() <-chan struct{}
	Flush(ctx context.Context) error
}

// collection is the part of *store.Collection that an informer uses in addition to store.Interface.
type collection interface {
	Close() error
	ClaimCluster(id string, exchanged bool) error
	Backpressure(ctx context.Context) error
	BuildIndexes()
	WaitResident(ctx context.Context) error
}
