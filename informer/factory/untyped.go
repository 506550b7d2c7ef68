package factory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
)

var errShutDown = errors.New("the informer factory has been shut down; make another")

// untypedFactory is the dynamic and the metadata factory: their methods are the same.
type untypedFactory struct {
	o      Options
	err    error // why it cannot make informers
	scope  scope
	resync time.Duration
	form   form
	// schemas is nil without a REST client.
	schemas *requests.Schemas

	wg sync.WaitGroup // of the informers that run

	mu           sync.Mutex
	informers    map[schema.GroupVersionResource]*untypedInformer // guarded by mu
	shuttingDown bool                                             // guarded by mu
}

// form has the differences between the dynamic and the metadata factory.
type form struct {
	client    any
	example   func() runtime.Object
	requests  func(gvr schema.GroupVersionResource, namespace string) calls
	lister    func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister
	clusterID func(context.Context) (string, error)
	// schema is true if the objects depend on the server's OpenAPI schema.
	schema bool
}

func newUntypedFactory(defaultResync time.Duration, o Options, f form) *untypedFactory {
	s := o.scope()
	return &untypedFactory{
		o: o, err: o.validateUntyped(s), scope: s, resync: defaultResync, form: f, schemas: schemas(o.RESTClient),
		informers: map[schema.GroupVersionResource]*untypedInformer{},
	}
}

// ForResource returns the informer for gvr. If there is none, or it was refused, ForResource makes one, which may take
// half a minute if another informer of the collection is about to end.
func (f *untypedFactory) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.informers[gvr]
	switch {
	case known != nil && (known.refused == nil || f.shuttingDown):
		return known
	case f.shuttingDown:
		return f.refuse(gvr, errShutDown)
	}
	inf, err := f.newInformer(gvr)
	if err != nil {
		if known == nil {
			known = f.refuse(gvr, err)
			f.informers[gvr] = known
		}
		return known
	}
	f.informers[gvr] = inf
	if known != nil && known.started {
		f.runLocked(known.ctx, inf)
	}
	return inf
}

// runLocked runs an informer until ctx ends.
func (f *untypedFactory) runLocked(ctx context.Context, inf *untypedInformer) {
	inf.started, inf.ctx = true, ctx
	f.wg.Go(func() { inf.informer.RunWithContext(ctx) })
}

func (f *untypedFactory) newInformer(gvr schema.GroupVersionResource) (*untypedInformer, error) {
	if f.err != nil {
		return nil, f.err
	}
	each := informer.Options{
		Identity:          f.scope.identity(gvr),
		ResyncPeriod:      f.resync,
		ObjectDescription: gvr.String(),
		ClusterID:         f.form.clusterID,
	}
	if f.form.schema {
		each.OpenAPIHash = openAPIHash(f.schemas, gvr.GroupVersion())
	}
	ours, err := f.o.newInformer(f.scope.listWatch(f.form.client, f.form.requests(gvr, f.scope.namespace)),
		f.form.example(), each)
	if err != nil {
		return nil, err
	}
	inf := &untypedInformer{informer: ours, ours: ours, lister: f.form.lister(ours.GetIndexer(), gvr)}
	if f.o.Transform != nil {
		if err := ours.SetTransform(f.o.Transform); err != nil {
			return nil, errors.Join(err, ours.Close())
		}
	}
	return inf, nil
}

// refuse returns an informer whose methods fail with err. It is started and waited for like any other, so that
// WaitForCacheSync does not succeed.
func (f *untypedFactory) refuse(gvr schema.GroupVersionResource, err error) *untypedInformer {
	err = fmt.Errorf("informer factory, %s: %w", gvr.GroupResource(), err)
	return &untypedInformer{informer: informer.Refused(f.form.example(), err), lister: refusedLister{err}, refused: err}
}

// Start runs the informers that have not been started, until stopCh is closed. It does nothing after Shutdown.
func (f *untypedFactory) Start(stopCh <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shuttingDown {
		return
	}
	ctx := wait.ContextForChannel(stopCh)
	for _, inf := range f.informers {
		if !inf.started {
			f.runLocked(ctx, inf)
		}
	}
}

// WaitForCacheSync waits until all started informers have synced, or stopCh is closed, and returns which have synced.
func (f *untypedFactory) WaitForCacheSync(stopCh <-chan struct{}) map[schema.GroupVersionResource]bool {
	started := f.started()
	var checkers []cache.DoneChecker
	for _, inf := range started {
		checkers = append(checkers, inf.HasSyncedChecker())
	}
	cache.WaitFor(wait.ContextForChannel(stopCh), "", checkers...)
	synced := map[schema.GroupVersionResource]bool{}
	for gvr, inf := range started {
		synced[gvr] = inf.HasSynced()
	}
	return synced
}

func (f *untypedFactory) started() map[schema.GroupVersionResource]cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	started := map[schema.GroupVersionResource]cache.SharedIndexInformer{}
	for gvr, inf := range f.informers {
		if inf.started {
			started[gvr] = inf.informer
		}
	}
	return started
}

// Shutdown waits until the informers have ended, which their channels or contexts make them do, and closes those that
// were never started. No informer can be started after it.
func (f *untypedFactory) Shutdown() {
	f.mu.Lock()
	f.shuttingDown = true
	var ours []*informer.Informer
	for _, inf := range f.informers {
		if inf.ours != nil {
			ours = append(ours, inf.ours)
		}
	}
	f.mu.Unlock()
	f.wg.Wait()
	if err := closeAll(ours); err != nil {
		utilruntime.HandleError(fmt.Errorf("shut down the informer factory: %w", err))
	}
}
