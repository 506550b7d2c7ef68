package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/seed"
	"github.com/larder-dev/larder/store"
)

// RunWithContext runs the informer until ctx ends, or the store is closed. When it returns, the informer's goroutines
// have ended, except for a write that the disk has not finished five seconds after that. It runs once; a second call
// logs a warning and returns. With a transform that lacks a version it fails at once: see SetTransform.
func (i *Informer) RunWithContext(ctx context.Context) {
	defer runtime.HandleCrashWithContext(ctx)
	logger := i.logger(ctx)
	if err := i.checkTransform(); err != nil && !i.hasStarted() {
		i.setStoreErr(err)
		runtime.HandleErrorWithContext(klog.NewContext(ctx, logger), errors.Join(err, i.Close()),
			"The informer does not run and will not sync", "type", i.o.ObjectDescription)
		return
	}
	given := ctx
	ctx, cancel := context.WithCancelCause(klog.NewContext(ctx, logger))
	defer cancel(delivery.ErrStopped)
	p := i.start(given)
	if p == nil {
		logger.Info("Warning: the sharedIndexInformer has started, or was closed; run more than once is not allowed")
		return
	}
	if i.memoryOnly != "" {
		logger.Info("Objects are kept in memory only: each start lists", "type", i.o.ObjectDescription, "representation",
			i.o.Identity.Representation, "why", i.memoryOnly)
	}
	logger.V(2).Info("Starting the informer", "type", i.o.ObjectDescription, "undecoded", i.undecoded)
	i.logUnguarded(logger)
	var wg sync.WaitGroup
	defer i.end(ctx, cancel, p, &wg)
	wg.Go(func() { i.detector.Run(ctx.Done()) })
	wg.Go(func() { i.runReflector(ctx, cancel) })
	wg.Go(func() { i.resyncLoop(ctx) })
	wg.Go(func() { i.watchFailure(ctx) })
	wg.Go(func() { i.watchCommits(ctx) })
	wg.Go(func() { i.watchResident(ctx) })
	wg.Go(func() { i.auditor.Run(ctx) })
	i.sources.start(ctx)
	i.reviewSource()
	i.auditor.Start(ctx)
	if err := i.runLoop(ctx, p); err != nil && ctx.Err() == nil {
		i.setStoreErr(err)
		logger.Error(err, "The informer stops", "type", i.o.ObjectDescription)
	}
}

// stopWait is how long RunWithContext waits for the loop to end: the disk may not finish a write.
const stopWait = 5 * time.Second

// runLoop runs the loop until ctx ends. If the loop has not ended stopWait after that, runLoop abandons it, since a
// write cannot be cancelled, and returns store.ErrStillWriting. The collection is closed only once the loop has ended.
func (i *Informer) runLoop(ctx context.Context, p *loop) error {
	var err error
	go func() {
		defer close(p.ended)
		defer runtime.HandleCrashWithContext(ctx)
		err = p.run(ctx)
	}()
	select {
	case <-p.ended:
		return err
	case <-ctx.Done():
	}
	timer := i.clock.NewTimer(stopWait)
	defer timer.Stop()
	select {
	case <-p.ended:
		return err
	case <-timer.C():
	}
	i.mu.Lock()
	i.stuck = true
	i.mu.Unlock()
	return store.ErrStillWriting
}

// end stops what RunWithContext has started, in order, and waits: first the goroutines that feed the loop, then the
// collection, which another informer can open from then on, and last the handlers, which may be slow. The store stays
// readable.
func (i *Informer) end(ctx context.Context, cancel context.CancelCauseFunc, p *loop, wg *sync.WaitGroup) {
	i.mu.Lock()
	i.stopped = true
	i.mu.Unlock()
	i.reviewSource()
	cancel(delivery.ErrStopped)
	i.queue.Close()
	wg.Wait()
	p.attrs.Close()
	await := i.durable.Stop(ctx) // their acknowledgements are part of the last commit
	if err := i.giveBackAfter(p.ended); err != nil {
		runtime.HandleErrorWithContext(ctx, err, "Failed to give back the collection", "type", i.o.ObjectDescription)
	}
	i.sources.stop()
	i.processor.Stop()
	await()
}

// Close closes the collection of an informer that will not be run. The informer counts as stopped then, and can still
// be read. An informer that has been started closes its collection when its run ends. Close does not end that run: it
// says that the run is about to end, so that New of another informer waits for the collection instead of failing.
func (i *Informer) Close() error {
	i.mu.Lock()
	i.closed = true
	if i.started {
		i.mu.Unlock()
		return nil
	}
	i.started, i.stopped = true, true
	i.mu.Unlock()
	i.durable.Stop(context.Background())
	return i.giveBack()
}

// closing reports whether the informer is about to close its collection. It reads the run's context, since the
// goroutines that set stopped may not have noticed its end yet.
func (i *Informer) closing() bool {
	i.mu.Lock()
	closing, running, stuck := i.closed || i.stopped, i.running, i.stuck
	i.mu.Unlock()
	return !stuck && (closing || running != nil && running.Err() != nil)
}

// runningContext returns the context of RunWithContext, or, before that, context.Background.
func (i *Informer) runningContext() context.Context {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running == nil {
		return context.Background()
	}
	return i.running
}

// giveBackAfter calls giveBack. If the loop is stuck in a write, it returns an error, and calls giveBack once the loop
// has ended.
func (i *Informer) giveBackAfter(ended <-chan struct{}) error {
	if !i.isStuck() {
		return i.giveBack()
	}
	go func() {
		<-ended
		_ = i.giveBack() // RunWithContext has returned: nobody handles an error
	}()
	return fmt.Errorf("a write of %s has been left behind, and the collection with it: %w", i.o.ObjectDescription,
		store.ErrStillWriting)
}

func (i *Informer) isStuck() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stuck
}

// giveBack closes the collection, so that another informer can open it.
func (i *Informer) giveBack() error {
	if i.o.Observer != nil {
		i.o.Observer.InformerEnded(i)
	}
	if i.collection == nil {
		return nil
	}
	return i.collection.Close()
}

// start marks the informer as started in ctx, the caller's context, and returns the loop, with the reflector set up. It
// returns nil if the informer has been started before.
func (i *Informer) start(ctx context.Context) *loop {
	errorSource := newErrorSource(i.example, cache.ReflectorOptions{
		Name: i.name(), TypeDescription: i.o.ObjectDescription,
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return nil
	}
	i.started, i.running = true, ctx
	i.indexer.BeforeRead(nil)
	var r *reflector.Reflector
	attrs := attributes.New(attributes.Options{
		ClusterID: i.o.ClusterID, OpenAPIHash: i.o.OpenAPIHash, Claim: i.claimCluster(), Want: i.attrs, Clock: i.clock,
		Sent: codec.SentFingerprint(i.o.Codec), Sends: i.undecoded && i.transform == nil, Encoding: i.encoding,
		Announce: i.health.setRewriting, Unguarded: i.noteUnguarded,
		Relist: func(reason reflector.Reason) { r.Relist(reason) },
	})
	s := &sink{
		store: i.store, queue: i.queue, transform: i.transform, attrs: attrs, announce: i.health.setRewriting, skip: i.skip,
		sync: i.sync, clock: i.clock,
	}
	i.errorSource = errorSource
	var open func(ctx context.Context, after time.Time) (*seed.Seed, error)
	if i.o.Seed != nil {
		i.seeds.attrs = attrs
		open = i.seeds.open
	}
	r = reflector.New(i.source, s, reflector.Options{
		Name: i.name(), TypeDescription: i.o.ObjectDescription, ExpectedType: i.example, Admit: admit(i.Identity()),
		PageSize:     i.o.PageSize,
		Shard:        i.Identity().Shards(),
		ListMetadata: i.o.ListMetadata,
		MetadataPays: func(ctx context.Context) bool { return i.metadataPays(ctx) && attrs.AllowsMetadata(ctx) },
		Verify:       attrs.Verify, Compare: i.comparer(), ComparisonPays: i.comparisonPays,
		OnError: i.reportError, OnContact: i.contact, OnLive: func(bool) { i.reviewSource() }, Clock: i.clock,
		Limiter:      i.limiter(),
		RelistSpread: i.o.RelistSpread, Seed: open,
	})
	i.reflector = r
	return &loop{
		Informer: i, relist: r.Relist, contradicted: r.Contradicted, heedsContradiction: r.HeedsContradiction,
		attrs: attrs, replay: i.processor.Start(), ended: make(chan struct{}),
	}
}

// limiter returns the limiter that the informers of the store share; nil without a store.
func (i *Informer) limiter() *limiter.Limiter {
	if i.o.Store == nil {
		return nil
	}
	return i.o.Store.Limiter()
}

// name returns the name for logs: the resource, and the representation unless that is Typed.
func (i *Informer) name() string {
	name := "larder " + i.o.Identity.GroupResource().String()
	if form := i.o.Identity.Representation; form != entry.Typed {
		name += " (" + string(form) + ")"
	}
	return name
}

func (i *Informer) runReflector(ctx context.Context, cancel context.CancelCauseFunc) {
	defer cancel(delivery.ErrStopped) // without the reflector the run has to end
	defer runtime.HandleCrashWithContext(ctx)
	err := i.currentReflector().Run(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, cache.ErrFIFOClosed) {
		runtime.HandleErrorWithContext(ctx, err, "The reflector stopped", "type", i.o.ObjectDescription)
	}
}

// reportError calls the watch error handler. A panic in the handler is handled as client-go does.
func (i *Informer) reportError(ctx context.Context, err error) {
	defer runtime.HandleCrashWithContext(ctx)
	i.onWatchError(ctx, i.errorSource.reflectorAt(ctx, i.LastSyncResourceVersion()), err)
}

// resyncLoop requests a resync whenever one of the handlers is due, once the informer has synced.
func (i *Informer) resyncLoop(ctx context.Context) {
	i.mu.Lock()
	period := i.resyncCheckPeriod
	i.mu.Unlock()
	if period <= 0 {
		return
	}
	select {
	case <-i.sync.done:
	case <-ctx.Done():
		return
	}
	for patient.Sleep(ctx, i.clock, period) == nil {
		if i.processor.ResyncDue(i.clock.Now()) {
			i.asks.ToResync()
		}
	}
}
