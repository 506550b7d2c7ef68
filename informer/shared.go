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
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/indexer"
)

// sharedInformer is the part that all Informers on one collection share: the collection, its reflector and its process
// loop. Each Informer has its handlers.
//
//	reflector ──► sink ──► fifo ──► loop ──► store
//	                                  └────► handlers of each Informer
//
// New makes it for the first Informer, and attaches later ones. Its run begins when the first of them runs, and ends
// with the last one attached, which waits for it; see attach.go.
//
// The process loop is one goroutine and the only writer. For each batch that it takes from the queue it
//
//  1. turns the deltas into operations, and waits while the store has too many dirty changes,
//  2. takes deltasMu,
//  3. applies them to the store in one step with the resourceVersion of the last delta; the store commits them later
//     (store.Options.CommitInterval),
//  4. queues the changes for every handler, in order,
//  5. releases deltasMu,
//  6. acknowledges the batch, which may complete the first sync.
//
// If step 3 fails, nothing has changed and no handler has been called: the loop releases deltasMu, waits, and tries
// again with the same batch. The end of a list takes one such round for each transaction that the store needs, so the
// memory it needs is bounded. The store retries a commit that fails, and watchCommits reports it; the loop goes on
// until too many changes are dirty. Stored objects that are read for a handler are queued under deltasMu too, so that
// they are consistent with the changes that are queued after them (see delivery's backlog).
type sharedInformer struct {
	// o are the options of the first Informer, and lw is its ListerWatcher.
	o  Options
	lw cache.ListerWatcher
	// source is what is listed and watched: lw, or what reads its answers without decoding them, which undecoded says.
	source    cache.ListerWatcherWithContext
	undecoded bool
	// encoding is the encoding of requests; nil if the client's configuration decides.
	encoding *attributes.Encoding
	example  runtime.Object
	store    store.Interface
	indexer  *indexer.Indexer
	// unstarted is done once it was logged that the collection is read before its start.
	unstarted sync.Once
	// file and collection are nil if the objects are in memory only, for the reason memoryOnly.
	file       file
	collection collection
	memoryOnly string
	// attrs are the attributes that this program writes with, without those that come from the server.
	attrs    entry.Attributes
	clock    clock.WithTicker
	queue    *fifo.Queue
	asks     asks.Asks
	detector cache.MutationDetector
	auditor  *audit.Auditor

	lastContact atomic.Int64 // Unix nanoseconds; 0 if there was no contact in this run
	skipped     atomic.Int64
	sync        *syncing
	seeds       *seeds
	health      health

	distribution *distribution
	listBegun    bool // guarded by distribution.deltasMu; a list has begun in this run

	cluster clusterInUse

	indexMu patient.Mutex
	// indexVersions are the versions of the index functions of the Informers; guarded by indexMu.
	indexVersions map[string]string

	opened chan struct{} // closed when the collection is open and attached has an Informer, or when that has failed

	mu sync.Mutex // taken before Informer.mu
	// attached has the Informers that were made and have not ended, and joined those of them whose handlers get changes;
	// both in order, guarded by mu, and replaced, never modified.
	attached, joined []*Informer
	ending           bool                    // guarded by mu; the last Informer was detached, or the run is about to end
	stuck            bool                    // guarded by mu; the run has ended, but the loop has not
	ctx              context.Context         // guarded by mu; of the run; nil before
	cancel           context.CancelCauseFunc // guarded by mu; of ctx
	done             chan struct{}           // closed when the run has ended
	transform        cache.TransformFunc     // guarded by mu until the run begins
	reflector        *reflector.Reflector    // guarded by mu; nil before the run
}

// newShared returns the shared part of an Informer, which open completes.
func newShared(i *Informer, lw cache.ListerWatcher) *sharedInformer {
	s := &sharedInformer{
		o: i.o, lw: lw, example: i.example, clock: i.clock,
		detector: cache.NewCacheMutationDetector(i.o.ObjectDescription), queue: fifo.New(fifo.Options{}),
		indexMu: patient.New(), indexVersions: map[string]string{},
		opened: make(chan struct{}), done: make(chan struct{}),
	}
	s.seeds, s.cluster.changed = &seeds{i: s}, make(chan struct{})
	s.health.unguarded = unguardedBy(s.o)
	s.sync = newSyncing(s.tellSynced)
	return s
}

// Identity returns Options.Identity in canonical form.
func (i *sharedInformer) Identity() entry.Identity {
	id, err := i.o.Identity.Canonical()
	if err != nil { // opening the collection would have failed
		return i.o.Identity
	}
	return id
}

// attachedNow returns the attached Informers. The caller must not modify the slice.
func (i *sharedInformer) attachedNow() []*Informer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.attached
}

// joinedNow returns the Informers whose handlers get changes. The caller must not modify the slice.
func (i *sharedInformer) joinedNow() []*Informer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.joined
}

// tellSynced completes HasSynced of the Informers whose handlers get changes.
func (i *sharedInformer) tellSynced() {
	for _, member := range i.joinedNow() {
		member.synced.complete()
	}
}

// hasHandlers reports whether a handler gets changes.
func (i *sharedInformer) hasHandlers() bool {
	return slices.ContainsFunc(i.joinedNow(), func(member *Informer) bool { return member.processor.Any() })
}

func (i *sharedInformer) currentReflector() *reflector.Reflector {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reflector
}

// lastSyncResourceVersion is that of Informer, for one that runs.
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

// holdsStateLocked reports whether handlers may be told of the stored objects. It returns false until the first list if
// a cold start of an earlier process was interrupted: that list removes the incomplete state. The caller holds
// deltasMu.
func (i *sharedInformer) holdsStateLocked() (bool, error) {
	if i.listBegun {
		return true, nil
	}
	info, err := i.store.Info(context.Background())
	return info.Complete, err
}

// part removes an Informer from those whose handlers get changes.
func (i *sharedInformer) part(member *Informer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.joined = without(i.joined, member)
}

func without(all []*Informer, one *Informer) []*Informer {
	return slices.DeleteFunc(slices.Clone(all), func(other *Informer) bool { return other == one })
}

// join adds an Informer to those whose handlers get changes. The caller holds deltasMu.
func (i *sharedInformer) join(member *Informer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.joined = append(slices.Clip(i.joined), member)
}
