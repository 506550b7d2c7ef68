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
// loop. Each Informer has its own handlers.
//
// reflector ──► sink ──► fifo ──► loop ──► store
//
//	└────► handlers of each Informer
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
// If step 3 fails, nothing has changed and no handler has been called: the loop releases deltasMu, waits, and retries
// the same batch. The end of a list takes one round for each transaction that the store needs, which bounds the memory.
// The store retries a failed commit, and watchCommits reports it; the loop continues until too many changes are dirty.
// Pages of stored objects are queued for handlers under deltasMu too, so they are consistent with the changes queued
// after them (see delivery's backlog).
type sharedInformer struct {
	// o and lw are the options and the ListerWatcher of the first Informer.
	o  Options
	lw cache.ListerWatcher
	// source is listed and watched. It is lw, or, if undecoded is true, a ListerWatcher that reads lw's answers without
	// decoding them.
	source    cache.ListerWatcherWithContext
	undecoded bool
	// encoding chooses the encoding, protobuf or JSON, that requests ask for; nil if the client's configuration
	// decides.
	encoding *attributes.Encoding
	example  runtime.Object
	store    store.Interface
	indexer  *indexer.Indexer
	// unstarted makes the log line about reads before the start unique.
	unstarted sync.Once
	// file and collection are nil if the objects are in memory only; memoryOnly says why.
	file       file
	collection collection
	memoryOnly string
	// attrs are the attributes stored with the objects that this program writes, such as codec and Go types, without
	// those that are read from the server.
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
	listBegun    bool // guarded by distribution.deltasMu; true once a list has begun in this run

	cluster clusterInUse

	indexMu patient.Mutex
	// indexVersions holds the versions of the Informers' index functions; guarded by indexMu.
	indexVersions map[string]string

	opened chan struct{} // closed when open has succeeded and attached has an Informer, or when open has failed

	mu sync.Mutex // taken before Informer.mu
	// attached holds the Informers that have not ended. joined holds the attached ones whose handlers get changes. Both
	// are in order and guarded by mu. The slices are replaced, never modified.
	attached, joined []*Informer
	ending           bool                    // guarded by mu; the last Informer was detached, or the run is ending
	stuck            bool                    // guarded by mu; the run has ended, and the loop is still in a write
	ctx              context.Context         // guarded by mu; context of the run; nil before
	cancel           context.CancelCauseFunc // guarded by mu; cancels ctx
	done             chan struct{}           // closed when the run has ended
	transform        cache.TransformFunc     // guarded by mu until the run begins
	reflector        *reflector.Reflector    // guarded by mu; nil before the run
}

// newShared returns the shared part of an Informer. open completes it.
func newShared(i *Informer, lw cache.ListerWatcher) *sharedInformer {
	s := &sharedInformer{
		o: i.o, lw: lw, example: i.example, clock: i.clock,
		detector: cache.NewCacheMutationDetector(i.o.ObjectDescription), queue: fifo.New(fifo.Options{}),
		indexMu: patient.New(), indexVersions: map[string]string{},
		opened: make(chan struct{}), done: make(chan struct{}),
	}
	s.seeds, s.cluster.changed = &seeds{i: s}, make(chan struct{})
	s.health.unguarded = unguardedBy(s.o)
	s.sync = newSyncing(s.notifySynced)
	return s
}

// Identity returns Options.Identity in canonical form.
func (i *sharedInformer) Identity() entry.Identity {
	id, err := i.o.Identity.Canonical()
	if err != nil { // the identity is invalid: open fails
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

// notifySynced completes HasSynced of the Informers whose handlers get changes.
func (i *sharedInformer) notifySynced() {
	for _, member := range i.joinedNow() {
		member.synced.complete()
	}
}

// hasHandlers reports whether any handler gets changes.
func (i *sharedInformer) hasHandlers() bool {
	return slices.ContainsFunc(i.joinedNow(), func(member *Informer) bool { return member.processor.Any() })
}

func (i *sharedInformer) currentReflector() *reflector.Reflector {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reflector
}

// lastSyncResourceVersion returns the newest resourceVersion received from the server in this run, or the stored one
// before that. It returns "" before the run.
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

// removeJoined removes an Informer from joined.
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
