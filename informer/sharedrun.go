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
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/seed"
	"github.com/larder-dev/larder/store"
)

// start marks an Informer as started and returns the context of the collection's run. callerCtx is the context of the
// Informer's caller. If the run has not begun, it begins with the values of ctx and with the Informer's handlers. start
// returns nil if the Informer was started before. It fails if the transform differs from the run's.
func (i *sharedInformer) start(member *Informer, callerCtx, ctx context.Context) (context.Context, error) {
	errorSource := newErrorSource(i.example, cache.ReflectorOptions{
		Name: i.name(), TypeDescription: i.o.ObjectDescription,
	})
	noVersion := member.checkTransform()
	i.mu.Lock()
	defer i.mu.Unlock()
	member.mu.Lock()
	defer member.mu.Unlock()
	if member.started {
		return nil, nil
	}
	if noVersion != nil {
		return nil, noVersion
	}
	if i.ctx != nil {
		if err := i.sameTransformLocked(member.transform); err != nil {
			return nil, err
		}
	}
	member.started, member.running, member.errorSource = true, callerCtx, errorSource
	if i.ctx != nil {
		return i.ctx, nil
	}
	i.transform = member.transform
	p := i.newLoop()
	if !member.hasOwnClient() || i.o.SyncPolicy == Disk {
		p.replay = member.processor.Start()
		member.joined, i.joined = true, []*Informer{member}
	}
	i.ctx, i.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go i.run(i.ctx, i.cancel, p)
	return i.ctx, nil
}

// newLoop makes the reflector and returns the process loop. The caller holds mu.
func (i *sharedInformer) newLoop() *loop {
	i.indexer.BeforeRead(nil)
	if i.collection != nil {
		i.collection.BuildIndexes()
	}
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
		OnError: i.reportError, OnContact: i.contact, OnLive: func(bool) { i.reviewSources() }, Clock: i.clock,
		Limiter:      i.limiter(),
		RelistSpread: i.o.RelistSpread, Seed: open,
	})
	i.reflector = r
	return &loop{
		sharedInformer: i, relist: r.Relist, contradicted: r.Contradicted, acceptsContradiction: r.AcceptsContradiction,
		attrs: attrs, ended: make(chan struct{}),
	}
}

// run runs the reflector, the process loop and their goroutines until ctx ends or the store is closed.
func (i *sharedInformer) run(ctx context.Context, cancel context.CancelCauseFunc, p *loop) {
	defer close(i.done)
	defer runtime.HandleCrashWithContext(ctx)
	logger := klog.FromContext(ctx)
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
	wg.Go(func() { i.watchFailure(ctx) })
	wg.Go(func() { i.watchCommits(ctx) })
	wg.Go(func() { i.watchResident(ctx) })
	wg.Go(func() { i.auditor.Run(ctx) })
	i.auditor.Start(ctx)
	if err := i.runLoop(ctx, p); err != nil && ctx.Err() == nil {
		i.setStoreErr(err)
		logger.Error(err, "The informer stops", "type", i.o.ObjectDescription)
	}
}

// stopWait bounds how long run waits for the process loop to end, because the disk may not finish a write.
const stopWait = 5 * time.Second

// runLoop runs the process loop until ctx ends. If the process loop has not ended stopWait later, runLoop returns
// store.ErrStillWriting and abandons it, because a write cannot be cancelled. The collection is closed only once the
// process loop has ended.
func (i *sharedInformer) runLoop(ctx context.Context, p *loop) error {
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

// end stops the parts that run has started, in order, and waits for them: first the goroutines that feed the process
// loop, then the durable handlers, and then the collection, which another informer can then open. The store stays
// readable.
func (i *sharedInformer) end(ctx context.Context, cancel context.CancelCauseFunc, p *loop, wg *sync.WaitGroup) {
	attached := i.attachNoMore()
	for _, member := range attached {
		member.markStopped()
	}
	i.reviewSources()
	cancel(delivery.ErrStopped)
	i.queue.Close()
	wg.Wait()
	p.attrs.Close()
	var handlers sync.WaitGroup
	for _, member := range attached {
		handlers.Go(func() { member.stopDurable(ctx) }) // their acknowledgements are in the last commit
	}
	handlers.Wait()
	if err := i.closeCollectionAfter(p.ended); err != nil {
		runtime.HandleErrorWithContext(ctx, err, "Failed to give back the collection", "type", i.o.ObjectDescription)
	}
}

// attachNoMore makes New wait for the end of the run, and returns the attached Informers.
func (i *sharedInformer) attachNoMore() []*Informer {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ending = true
	return i.attached
}

func (i *sharedInformer) ends() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ctx != nil && i.ctx.Err() != nil
}

// close ends the run and waits for its end. Without a run it closes the collection.
func (i *sharedInformer) close() error {
	i.mu.Lock()
	cancel := i.cancel
	i.mu.Unlock()
	if cancel == nil {
		return i.closeCollection()
	}
	cancel(delivery.ErrStopped)
	<-i.done
	return nil // end has reported the error
}

// closeCollectionAfter calls closeCollection. If the process loop is stuck in a write, closeCollectionAfter returns an
// error, and waits for ended in the background.
func (i *sharedInformer) closeCollectionAfter(ended <-chan struct{}) error {
	if !i.isStuck() {
		return i.closeCollection()
	}
	go func() {
		<-ended
		_ = i.closeCollection() // RunWithContext has returned, so there is no caller for the error
	}()
	return fmt.Errorf("a write of %s has been left behind, and the collection with it: %w", i.o.ObjectDescription,
		store.ErrStillWriting)
}

func (i *sharedInformer) closeCollection() error {
	for _, member := range i.attachedNow() {
		member.notifyEnded()
	}
	if i.collection == nil {
		return nil
	}
	return i.collection.Close()
}

func (i *sharedInformer) limiter() *limiter.Limiter {
	if i.o.Store == nil {
		return nil
	}
	return i.o.Store.Limiter()
}

func (i *sharedInformer) name() string {
	name := "larder " + i.o.Identity.GroupResource().String()
	if form := i.o.Identity.Representation; form != entry.Typed {
		name += " (" + string(form) + ")"
	}
	return name
}

func (i *sharedInformer) runReflector(ctx context.Context, cancel context.CancelCauseFunc) {
	defer cancel(delivery.ErrStopped) // the run cannot continue without the reflector
	defer runtime.HandleCrashWithContext(ctx)
	err := i.currentReflector().Run(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, cache.ErrFIFOClosed) {
		runtime.HandleErrorWithContext(ctx, err, "The reflector stopped", "type", i.o.ObjectDescription)
	}
}

// reportError calls the watch error handlers of the running Informers, but client-go's default handler only once.
func (i *sharedInformer) reportError(ctx context.Context, err error) {
	logged := false
	for _, member := range i.attachedNow() {
		if !member.hasStarted() {
			continue
		}
		if member.onWatchError == nil {
			if logged {
				continue
			}
			logged = true
		}
		member.reportError(ctx, err)
	}
}

// reportError calls the watch error handler. A panic in it is handled as in client-go.
func (i *Informer) reportError(ctx context.Context, err error) {
	defer runtime.HandleCrashWithContext(ctx)
	handler := i.onWatchError
	if handler == nil {
		handler = cache.DefaultWatchErrorHandler
	}
	handler(ctx, i.errorSource.reflectorAt(ctx, i.LastSyncResourceVersion()), err)
}
