package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// Informer is a cache.SharedIndexInformer whose cache is a store.
//
//	reflector ──► sink ──► fifo ──► loop ──► store
//	                                  └────► handlers
//
// The process loop is one goroutine and the only writer. For each batch that it takes from the queue it
//
//  1. turns the deltas into operations, and waits while the store has much to commit,
//  2. takes deltasMu,
//  3. applies them to the store in one step with the resourceVersion of the last delta; the store commits them later
//     (store.Options.CommitInterval),
//  4. queues what that changed for every handler, in order,
//  5. gives deltasMu back,
//  6. acknowledges the batch, which may complete the first sync.
//
// If 3 fails nothing has changed and nobody has been told: the loop gives deltasMu back, waits, and tries again with
// the same batch. A list ends in as many such rounds as the store needs transactions for what it changes, so what is
// held of it at a time is bounded. A commit that fails is tried again by the store, and told by watchCommits; the loop
// goes on until too much is pending. What is read of the stored objects for a handler is queued under deltasMu too, so
// that it and what is queued after that fit together (see backlog).
type Informer struct {
	o       Options
	lw      cache.ListerWatcher
	example runtime.Object
	store   store.Interface
	indexer *store.Indexer
	// file and collection are nil if the objects are in memory only, for the reason memoryOnly.
	file       file
	collection collection
	memoryOnly string
	// attrs is what this program would write, as far as it is known without the server.
	attrs     entry.Attributes
	clock     clock.WithTicker
	queue     *fifo.Queue
	asks      asks
	detector  cache.MutationDetector
	processor delivery.Handlers
	durable   *durable.Handlers
	sources   sources
	auditor   *audit.Auditor

	lastContact atomic.Int64 // Unix nanoseconds; 0 is never in this run
	skipped     atomic.Int64
	sync        *syncing
	health      health

	// deltasMu is held while a batch is committed and queued for the handlers, while a late handler joins, and while a
	// page is queued that was read for a handler. No code of users runs under it but index functions.
	deltasMu  patient.Mutex
	pages     pages
	listBegun bool // guarded by deltasMu; a list has been taken in, or begun to, in this run

	mu                sync.Mutex
	started, stopped  bool                               // guarded by mu
	closed            bool                               // guarded by mu; Close was called
	stuck             bool                               // guarded by mu; the run has ended before the loop
	running           context.Context                    // guarded by mu; what RunWithContext was called with; nil before
	resyncCheckPeriod time.Duration                      // guarded by mu until started
	onWatchError      cache.WatchErrorHandlerWithContext // guarded by mu until started
	transform         cache.TransformFunc                // guarded by mu until started
	reflector         *reflector.Reflector               // guarded by mu; nil before Run

	errorSource *cache.Reflector // what watch error handlers get; never runs; set by start
}

var _ cache.SharedIndexInformer = &Informer{}

// New returns an informer on what lw lists, objects of exampleObject's type. It opens the collection, which Run gives
// back when it returns, and starts nothing; an informer that is never run holds its collection until Close, or until
// the store is closed. If the informer that has the collection is about to end (its context has ended, or it was
// closed), New waits for that, up to half a minute; no longer for the store's writer either. Errors: an option that is
// missing, or what opening the collection says: store.ErrCollectionOpen if another informer has it.
func New(lw cache.ListerWatcher, exampleObject runtime.Object, o Options) (*Informer, error) {
	if lw == nil || exampleObject == nil {
		return nil, errors.New("informer: a ListerWatcher and an example object are required")
	}
	if o.Identity.Resource == "" {
		return nil,
			errors.New("informer: Options.Identity.Resource is required: it says which collection of the store to use")
	}
	i := &Informer{
		o:                 o.withDefaults(exampleObject),
		lw:                lw,
		example:           exampleObject,
		sync:              newSyncing(exampleObject),
		resyncCheckPeriod: o.ResyncPeriod,
		onWatchError:      cache.DefaultWatchErrorHandler,
		detector:          cache.NewCacheMutationDetector(fmt.Sprintf("%T", exampleObject)),
	}
	i.clock = i.o.Clock
	i.pages.init()
	i.deltasMu = patient.New()
	i.sources.init(i.clock.Now())
	i.health.unguarded = unguardedBy(i.o)
	i.queue = fifo.New(fifo.Options{})
	err := i.open()
	if errors.Is(err, store.ErrCollectionOpen) {
		err = fmt.Errorf("%w: another informer on this store has it; share that one or its factory, or end it first", err)
	}
	if err != nil {
		return nil, fmt.Errorf("informer on %s: %w", i.o.Identity.GroupResource(), err)
	}
	i.auditor = i.newAuditor()
	i.durable = durable.New(i.durableOptions())
	if i.o.Observer != nil {
		i.o.Observer.InformerMade(i)
	}
	return i, nil
}

// Run is RunWithContext with a channel to stop.
func (i *Informer) Run(stopCh <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stopCh)) }

// HasSynced reports whether the store has been brought up to date as Options.SyncPolicy asks, and every change
// has been queued for the handlers. Whether a handler has seen all objects is told by its registration.
func (i *Informer) HasSynced() bool { return cache.IsDone(i.HasSyncedChecker()) }

// HasSyncedChecker is done when HasSynced becomes true.
func (i *Informer) HasSyncedChecker() cache.DoneChecker { return i.sync }

// LastSyncResourceVersion is the newest resourceVersion received from the server, or, before the first in this run, the
// stored one. It is empty before Run. GetStore().LastStoreSyncResourceVersion is the one that the store has reached.
func (i *Informer) LastSyncResourceVersion() string {
	r := i.currentReflector()
	if r == nil {
		return ""
	}
	if rv := r.LastSyncResourceVersion(); rv != "" {
		return rv
	}
	return i.indexer.LastStoreSyncResourceVersion()
}

// Identity returns what the informer holds, in canonical form.
func (i *Informer) Identity() entry.Identity {
	id, err := i.o.Identity.Canonical()
	if err != nil { // opening the collection would have failed
		return i.o.Identity
	}
	return id
}

// File returns the store that the objects are in, or nil if they are in memory only.
func (i *Informer) File() *store.Store {
	if i.memoryOnly != "" {
		return nil
	}
	return i.o.Store
}

// GetStore returns the store. It can be read at any time, before Run too.
func (i *Informer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer returns the store. It can be read at any time, before Run too.
func (i *Informer) GetIndexer() cache.Indexer { return i.indexer }

// Reader returns what reads the stored objects by more than a cache.Indexer can: by a store.Query (namespace, labels,
// fields), which decodes only what it selects, page by page with a key to go on from, and with a context and an error.
// It has what GetStore has, and can be used at any time, before Run too.
func (i *Informer) Reader() store.Reader { return i.store }

// AddIndexers adds index functions. Before Run it returns at once; look-ups wait until the index has been built, in the
// background. Later it waits for that too, for as long as New waits at most. It fails after the informer has stopped,
// if an index of that name exists, and if the disk does not finish a write in that time.
func (i *Informer) AddIndexers(indexers cache.Indexers) error {
	if i.IsStopped() {
		return errors.New("indexer was not added because it has stopped already") // client-go's words
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	if err := i.store.AddIndexers(ctx, indexers, i.o.IndexVersions); err != nil {
		return err
	}
	if i.hasStarted() {
		for name := range indexers {
			// A look-up waits for the build. If that fails, the indexes have been added all the same: look-ups say why.
			_, _ = i.store.IndexKeys(ctx, name, "")
		}
	}
	return nil
}

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext for the older signature.
func (i *Informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets what is called with each error that ended a connection (that of a watch which is
// opened beside a list too), and when the store begins to fail. Default cache.DefaultWatchErrorHandler. The reflector
// that it gets has the right name and type and never runs. The handler may be called by two goroutines at a time. It
// fails once the informer has started.
func (i *Informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	if handler == nil {
		handler = cache.DefaultWatchErrorHandler
	}
	return i.beforeStart(func() { i.onWatchError = handler })
}

// SetTransform sets what is applied to each object before it is stored: see cache.TransformFunc. It must return an
// object of the informer's type. Change Options.TransformVersion with it. It fails once the informer has started.
func (i *Informer) SetTransform(handler cache.TransformFunc) error {
	return i.beforeStart(func() { i.transform = handler })
}

func (i *Informer) beforeStart(set func()) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errors.New("informer has already started")
	}
	set()
	return nil
}

// IsStopped reports whether the informer has been stopped. It cannot be started again.
func (i *Informer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

func (i *Informer) hasStarted() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.started
}

func (i *Informer) currentReflector() *reflector.Reflector {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reflector
}

// logger returns Options.Logger, or that of ctx.
func (i *Informer) logger(ctx context.Context) klog.Logger {
	if i.o.Logger != nil {
		return *i.o.Logger
	}
	return klog.FromContext(ctx)
}
