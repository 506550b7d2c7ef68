package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/store"
)

// Informer is a cache.SharedIndexInformer whose cache is a store. Informers of one process on one collection share its
// reflector and store. Each Informer has its own handlers and its own Run.
type Informer struct {
	o       Options
	example runtime.Object
	clock   clock.WithTicker
	shared  *sharedInformer

	processor delivery.Handlers
	durable   *durable.Handlers
	sources   sources
	synced    *synced
	// resyncs is true if the process loop must start due resyncs.
	resyncs atomic.Bool
	// indexed holds the names of the indexes that this Informer has added; guarded by shared.indexMu.
	indexed map[string]bool

	// first is true if the shared run uses the options and ListerWatcher of this Informer: it was the first to start.
	first       bool
	endNotified sync.Once // endNotified makes the call of Observer.InformerEnded unique

	// mu guards the fields from started to transform; the last three are constant after the start. mu is taken after
	// sharedInformer.mu.
	mu               sync.Mutex
	started, stopped bool
	closed           bool            // closed is true once Close was called
	running          context.Context // running is the context of RunWithContext; nil before
	// joined is true once the handlers get changes. It is set with deltasMu held, except before the run begins.
	joined            bool
	refused           error // refused is why the informer gets no changes
	resyncCheckPeriod time.Duration
	onWatchError      cache.WatchErrorHandlerWithContext // onWatchError is nil for client-go's default
	transform         cache.TransformFunc

	errorSource    *errorSource // errorSource makes the Reflector for watch error handlers; start sets it
	durableStopped sync.Once
	awaitDurable   func() // awaitDurable waits for running calls of durable handlers; stopDurable sets it
}

var _ cache.SharedIndexInformer = &Informer{}

// New returns an informer on the objects that lw lists, of exampleObject's type. It opens the collection, which the run
// closes at its end, and starts no goroutine. If other informers have the collection open, the new one attaches to
// them; see the package's documentation. If those are about to end (their contexts have ended, or Close was called),
// New waits up to half a minute for them and for the store's writer. An informer that is never run holds its collection
// until Close, or until the store is closed. New fails if a required option is missing or the collection cannot be
// opened. It fails with store.ErrCollectionOpen if informers with other options, or other code of the program, have the
// collection open.
func New(lw cache.ListerWatcher, exampleObject runtime.Object, o Options) (*Informer, error) {
	if lw == nil || exampleObject == nil {
		return nil, errors.New("informer: a ListerWatcher and an example object are required")
	}
	if o.Identity.Resource == "" {
		return nil,
			errors.New("informer: Options.Identity.Resource is required: it says which collection of the store to use")
	}
	if l, ok := lw.(metadataLister); ok && o.ListMetadata == nil {
		o.ListMetadata = l.ListMetadata
	}
	o, err := o.withDefaults(exampleObject)
	i := &Informer{
		o: o, example: exampleObject, clock: o.Clock, synced: newSynced(exampleObject), indexed: map[string]bool{},
		resyncCheckPeriod: o.ResyncPeriod,
	}
	i.sources.init(i.clock.Now())
	if err == nil {
		err = i.attach(lw)
	}
	if err != nil {
		return nil, fmt.Errorf("informer on %s: %w", o.Identity.GroupResource(), err)
	}
	if o.Observer != nil {
		o.Observer.InformerMade(i)
	}
	return i, nil
}

// Run calls RunWithContext with a context that ends when stopCh is closed.
func (i *Informer) Run(stopCh <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stopCh)) }

// HasSynced reports whether the store is as up to date as Options.SyncPolicy requires, with every change queued for the
// handlers. A handler's registration reports whether that handler has received all objects.
func (i *Informer) HasSynced() bool { return cache.IsDone(i.HasSyncedChecker()) }

// HasSyncedChecker is done when HasSynced becomes true.
func (i *Informer) HasSyncedChecker() cache.DoneChecker { return i.synced }

// LastSyncResourceVersion returns the newest resourceVersion received from the server in this run; before the first one
// the stored one, and before Run "". GetStore().LastStoreSyncResourceVersion returns the store's resourceVersion.
func (i *Informer) LastSyncResourceVersion() string {
	if !i.hasStarted() {
		return ""
	}
	return i.shared.lastSyncResourceVersion()
}

// Identity returns Options.Identity in canonical form.
func (i *Informer) Identity() entry.Identity { return i.shared.Identity() }

// File returns the store that holds the objects, or nil if they are in memory only.
func (i *Informer) File() *store.Store {
	if i.shared.memoryOnly != "" {
		return nil
	}
	return i.o.Store
}

// GetStore returns the store, which is readable at any time.
func (i *Informer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer returns the store, which is readable at any time. As in client-go, List(selector) of a lister gets all
// objects and then selects. With another Residency than All that decodes all of them; use Reader there.
func (i *Informer) GetIndexer() cache.Indexer { return i.shared.indexer }

// Reader returns a reader of the objects, usable at any time. It takes a query.Query (namespace, labels, fields),
// decodes only the selected objects (package store says for which codecs), and reads page by page, with a context and
// an error.
func (i *Informer) Reader() store.Reader { return i.shared.store }

// AddIndexers adds index functions to the collection. Before Run it returns immediately: Run builds all indexes in one
// pass, and look-ups in them wait for that. After the start it returns when the indexes are built, and changes wait
// meanwhile, as in client-go. It adds nothing and fails if the informer has stopped, if an index of that name exists,
// or if the build takes longer than New would wait.
func (i *Informer) AddIndexers(indexers cache.Indexers) error {
	if i.IsStopped() {
		return errors.New("indexer was not added because it has stopped already") // the message is client-go's
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	return i.addIndexers(ctx, indexers)
}

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext with the older signature.
func (i *Informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets the handler for each error that ends a connection (including a watch that runs
// during a list), and for the store's failures. Default cache.DefaultWatchErrorHandler. The handler's Reflector has the
// right name, type and LastSyncResourceVersion, but never runs. Two goroutines may call the handler at a time: one for
// the connection, the other for the store. The handler is called once for each overdue call (reflector.ErrOverdue), and
// once for a failure of the store. The method fails once the informer has started.
func (i *Informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	return i.beforeStart(func() { i.onWatchError = handler })
}

// SetTransform sets the function that is applied to each object before it is stored: see cache.TransformFunc. The
// function must return an object of the informer's type. Its changes to namespace, name, UID and resourceVersion are
// reverted. Change Options.TransformVersion whenever the function changes. SetTransform fails once the informer has
// started. For objects in a file without Options.TransformVersion it fails with ErrTransformVersion, and so does the
// run, because factories ignore the error.
//
// An object that the transform refuses is left out (Status.LeftOut). If that is the object of a DELETED event, handlers
// get the stored state in a cache.DeletedFinalStateUnknown, or no call if none is stored.
func (i *Informer) SetTransform(handler cache.TransformFunc) error {
	err := i.beforeStart(func() { i.transform = handler })
	if err != nil {
		return err
	}
	return i.checkTransform()
}

// checkTransform returns an error if a later change of the transform could go unnoticed.
func (i *Informer) checkTransform() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.transform != nil && i.shared.memoryOnly == "" && i.o.TransformVersion == "" {
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

// IsStopped reports whether the informer has been stopped. A stopped informer cannot be started again.
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

func (i *Informer) hasJoined() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.joined
}

func (i *Informer) refusal() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.refused
}

func (o Options) logger(ctx context.Context) klog.Logger {
	if o.Logger != nil {
		return *o.Logger
	}
	return klog.FromContext(ctx)
}

// GetController returns a Controller that reports the informer's state and cannot run it, as in client-go.
func (i *Informer) GetController() cache.Controller { return controller{i} }

type controller struct{ i *Informer }

func (c controller) RunWithContext(context.Context)      {}
func (c controller) Run(<-chan struct{})                 {}
func (c controller) HasSynced() bool                     { return c.i.HasSynced() }
func (c controller) HasSyncedChecker() cache.DoneChecker { return c.i.HasSyncedChecker() }
func (c controller) LastSyncResourceVersion() string     { return c.i.LastSyncResourceVersion() }

// ErrForeign is returned by Of for an informer that is not Larder's.
var ErrForeign = errors.New("the informer is not one of Larder's")

// Of returns the Informer that inf is or wraps; typed factories return client-go's wrappers. For an informer of Refused
// it returns that error, and for any other informer ErrForeign.
func Of(inf cache.SharedIndexInformer) (*Informer, error) {
	if inf != nil {
		// Wrappers forward GetController to the informer that they wrap.
		switch c := inf.GetController().(type) {
		case controller:
			return c.i, nil
		case *refused:
			return nil, c.err
		}
	}
	return nil, fmt.Errorf("%w: it is a %T", ErrForeign, inf)
}

// Refused returns an informer for functions that cannot return an error (a factory's ForResource, controller-runtime's
// NewInformer, the function for InformerFor of a generated factory) when they cannot make an informer. Of returns err
// for it. So does every method of the informer and its indexer that returns an error. The informer is empty and never
// syncs, so List, ListKeys, GetIndexers and ListIndexFuncValues of its indexer behave as on an empty cache: call Of
// first. Run reports err and returns when its context ends.
func Refused(exampleObject runtime.Object, err error) cache.SharedIndexInformer {
	return &refused{
		err:  err,
		name: fmt.Sprintf("SharedIndexInformer %T", exampleObject),
		indexer: &refusedIndexer{Indexer: cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{}),
			err: err},
		never: make(chan struct{}),
	}
}

type refused struct {
	err     error
	name    string
	indexer cache.Indexer
	never   chan struct{}
}

var _ cache.SharedIndexInformer = &refused{}

func (r *refused) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return nil, r.err
}

func (r *refused) AddEventHandlerWithResyncPeriod(
	cache.ResourceEventHandler, time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return nil, r.err
}

func (r *refused) AddEventHandlerWithOptions(
	cache.ResourceEventHandler, cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return nil, r.err
}

func (r *refused) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return r.err }

func (r *refused) GetStore() cache.Store                  { return r.indexer }
func (r *refused) GetIndexer() cache.Indexer              { return r.indexer }
func (r *refused) GetController() cache.Controller        { return r }
func (r *refused) AddIndexers(cache.Indexers) error       { return r.err }
func (r *refused) SetTransform(cache.TransformFunc) error { return r.err }
func (r *refused) IsStopped() bool                        { return false }
func (r *refused) HasSynced() bool                        { return false }
func (r *refused) HasSyncedChecker() cache.DoneChecker    { return r }
func (r *refused) Name() string                           { return r.name }
func (r *refused) Done() <-chan struct{}                  { return r.never }
func (r *refused) LastSyncResourceVersion() string        { return "" }

func (r *refused) SetWatchErrorHandler(cache.WatchErrorHandler) error { return r.err }

func (r *refused) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return r.err
}

func (r *refused) Run(stopCh <-chan struct{}) { r.RunWithContext(wait.ContextForChannel(stopCh)) }

func (r *refused) RunWithContext(ctx context.Context) {
	utilruntime.HandleErrorWithContext(ctx, r.err, "The informer cannot run and will not sync", "informer", r.name)
	<-ctx.Done()
}

type refusedIndexer struct {
	cache.Indexer
	err error
}

func (i *refusedIndexer) Add(any) error                           { return i.err }
func (i *refusedIndexer) Update(any) error                        { return i.err }
func (i *refusedIndexer) Delete(any) error                        { return i.err }
func (i *refusedIndexer) Replace([]any, string) error             { return i.err }
func (i *refusedIndexer) Resync() error                           { return i.err }
func (i *refusedIndexer) Get(any) (any, bool, error)              { return nil, false, i.err }
func (i *refusedIndexer) GetByKey(string) (any, bool, error)      { return nil, false, i.err }
func (i *refusedIndexer) Index(string, any) ([]any, error)        { return nil, i.err }
func (i *refusedIndexer) IndexKeys(_, _ string) ([]string, error) { return nil, i.err }
func (i *refusedIndexer) ByIndex(_, _ string) ([]any, error)      { return nil, i.err }
func (i *refusedIndexer) AddIndexers(cache.Indexers) error        { return i.err }

// errorSource makes the cache.Reflector that watch error handlers receive. It never runs, but its
// LastSyncResourceVersion is the informer's, because programs treat an informer with an empty one as not synced.
type errorSource struct {
	*cache.Reflector

	mu sync.Mutex
	at string // at is the resourceVersion of the next list; mu guards it
}

// singleLister is a ListerWatcher that lists with one request, without WatchList.
type singleLister struct{ *cache.ListWatch }

func (singleLister) IsWatchListSemanticsUnSupported() bool { return true }

func newErrorSource(example runtime.Object, o cache.ReflectorOptions) *errorSource {
	s := &errorSource{}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: s.at}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, errNothingToWatch
		},
	}
	s.Reflector = cache.NewReflectorWithOptions(singleLister{lw}, example, cache.NewStore(cache.MetaNamespaceKeyFunc), o)
	return s
}

// errNothingToWatch is the error of singleLister's watch: it ends the Reflector's ListAndWatch after its list.
var errNothingToWatch = errors.New("there is nothing to watch")

// reflectorAt returns a cache.Reflector whose LastSyncResourceVersion is resourceVersion. Only a list can set that, so
// the Reflector lists an empty result with that resourceVersion.
func (s *errorSource) reflectorAt(ctx context.Context, resourceVersion string) *cache.Reflector {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resourceVersion != "" && resourceVersion != s.LastSyncResourceVersion() {
		s.at = resourceVersion
		ctx = klog.NewContext(context.WithoutCancel(ctx), logr.Discard())
		if err := s.ListAndWatchWithContext(ctx); !errors.Is(err, errNothingToWatch) {
			klog.FromContext(ctx).V(2).Info("The resourceVersion for watch error handlers was not set", "err", err)
		}
	}
	return s.Reflector
}
