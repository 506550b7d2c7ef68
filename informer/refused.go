package informer

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// Refused returns an informer for functions that cannot return an error (a factory's ForResource, controller-runtime's
// NewInformer, the function for InformerFor of a generated factory) when they cannot make an informer. Of returns err
// for it. So does every method of the informer and its indexer that returns an error. The informer is empty and never
// syncs, so List, ListKeys, GetIndexers and ListIndexFuncValues of its indexer behave as on an empty cache. Run reports
// err and returns when its context ends.
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
