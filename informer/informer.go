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
	"github.com/larder-dev/larder/informer/internal/asks"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/indexer"
)

// Informer is a cache.SharedIndexInformer whose cache is a store.
//
//	reflector ──► sink ──► fifo ──► loop ──► store
//	                                  └────► handlers
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
type Informer struct {
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
	// unstarted is done once it was logged that the informer is read before its start.
	unstarted sync.Once
	// file and collection are nil if the objects are in memory only, for the reason memoryOnly.
	file       file
	collection collection
	memoryOnly string
	// attrs are the attributes that this program writes with, without those that come from the server.
	attrs     entry.Attributes
	clock     clock.WithTicker
	queue     *fifo.Queue
	asks      asks.Asks
	detector  cache.MutationDetector
	processor delivery.Handlers
	durable   *durable.Handlers
	sources   sources
	auditor   *audit.Auditor

	lastContact atomic.Int64 // Unix nanoseconds; 0 if there was no contact in this run
	skipped     atomic.Int64
	sync        *syncing
	seeds       *seeds
	health      health

	distribution *distribution
	listBegun    bool // guarded by distribution.deltasMu; a list has begun in this run

	mu                sync.Mutex
	started, stopped  bool                               // guarded by mu
	closed            bool                               // guarded by mu; Close was called
	stuck             bool                               // guarded by mu; the run has ended, but the loop has not
	running           context.Context                    // guarded by mu; context of RunWithContext; nil before
	resyncCheckPeriod time.Duration                      // guarded by mu until started
	onWatchError      cache.WatchErrorHandlerWithContext // guarded by mu until started
	transform         cache.TransformFunc                // guarded by mu until started
	reflector         *reflector.Reflector               // guarded by mu; nil before Run

	errorSource *errorSource // what watch error handlers get; set by start
}

var _ cache.SharedIndexInformer = &Informer{}

// New returns an informer on the objects that lw lists, of exampleObject's type. It opens the collection, which Run
// closes when it returns, and starts no goroutine. An informer that is never run holds its collection until Close, or
// until the store is closed. If another informer has the collection and is about to end (its context has ended, or it
// was closed), New waits for that, and for the store's writer, for up to half a minute. It fails if an option is
// missing, or if the collection cannot be opened: store.ErrCollectionOpen if another informer has it.
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
	if l, ok := lw.(metadataLister); ok && i.o.ListMetadata == nil {
		i.o.ListMetadata = l.ListMetadata
	}
	i.seeds = &seeds{i: i}
	i.clock = i.o.Clock
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
	i.source, i.undecoded = i.listed()
	i.distribution = newDistribution(i)
	i.auditor = i.newAuditor()
	i.durable = durable.New(i.durableOptions())
	if i.memoryOnly == "" {
		i.indexer.BeforeRead(i.logUnstarted(i.clock.Now()))
	}
	if i.o.Observer != nil {
		i.o.Observer.InformerMade(i)
	}
	return i, nil
}

// unstartedGrace is how long an informer may be read before its start without a log line.
const unstartedGrace = 10 * time.Second

// logUnstarted returns a function for reads before the start of an informer that was made at a time. It logs once that
// the informer was not started: its reader may not know, since what an earlier run has stored looks like a cluster.
func (i *Informer) logUnstarted(made time.Time) func() {
	return func() {
		if i.clock.Since(made) < unstartedGrace {
			return
		}
		i.indexer.BeforeRead(nil)
		i.unstarted.Do(func() {
			i.logger(context.Background()).Info("An informer is read that was not started: its reader gets the objects of an "+
				"earlier run. Start it, or its factory after the informers have been made", "type", i.o.ObjectDescription)
		})
	}
}

// Run is RunWithContext with a channel to stop.
func (i *Informer) Run(stopCh <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stopCh)) }

// HasSynced reports whether the store is up to date as Options.SyncPolicy requires, and every change has been queued
// for the handlers. The registration of a handler says whether the handler has seen all objects.
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

// Identity returns Options.Identity in canonical form.
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

// Reader returns a reader of the same objects as GetStore. It takes a query.Query (namespace, labels, fields), decodes
// only the selected objects, and reads page by page, with a context and an error. It can be used at any time, before
// Run too.
func (i *Informer) Reader() store.Reader { return i.store }

// AddIndexers adds index functions. Before Run it returns at once; the index is built in the background, and look-ups
// wait for that. After the start it waits for the build itself, at most as long as New waits. It fails if the informer
// has stopped, an index of that name exists, or the disk does not finish a write in that time.
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
			// This look-up waits for the build. If the build fails, the index stays added, and look-ups return the error.
			_, _ = i.store.IndexKeys(ctx, name, "")
		}
	}
	return nil
}

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext for the older signature.
func (i *Informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets the handler that is called with each error that ended a connection (also that of
// a watch beside a list), and when the store begins to fail. Default cache.DefaultWatchErrorHandler. The reflector that
// the handler gets has the right name and type but never runs. Two goroutines may call the handler at a time. The
// method fails once the informer has started.
func (i *Informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	if handler == nil {
		handler = cache.DefaultWatchErrorHandler
	}
	return i.beforeStart(func() { i.onWatchError = handler })
}

// SetTransform sets the function that is applied to each object before it is stored: see cache.TransformFunc. The
// function must return an object of the informer's type. Change Options.TransformVersion whenever it changes.
// SetTransform fails once the informer has started. It fails with ErrTransformVersion if the objects are stored in a
// file and there is no version; the run fails then, too, because factories ignore the error.
func (i *Informer) SetTransform(handler cache.TransformFunc) error {
	err := i.beforeStart(func() { i.transform = handler })
	if err != nil {
		return err
	}
	return i.checkTransform()
}

// checkTransform returns an error if a changed transform would leave stored objects in their old form unnoticed.
func (i *Informer) checkTransform() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.transform != nil && i.memoryOnly == "" && i.o.TransformVersion == "" {
		return fmt.Errorf("%s: %w", i.o.ObjectDescription, ErrTransformVersion)
	}
	return nil
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
