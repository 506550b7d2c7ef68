package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store"
)

// Factory is an informer factory of package factory, of client-go, or generated with a clientset.
type Factory interface {
	Start(stop <-chan struct{})
	Shutdown()
}

// A Session is the argument of a program that Run runs. It has the store, and starts the informers and factories that
// use it.
type Session struct {
	// Store is the open store, for the Options of informers and factories.
	Store *store.Store

	ctx       context.Context
	informers sync.WaitGroup
	mu        sync.Mutex
	factories []Factory // factories are the started factories, which wait shuts down; mu guards them
}

// Run opens the store at path and runs the program. When the program returns, Run stops the informers and factories
// that the program started, waits for them, and closes the store. The program must return when ctx ends. Run returns
// the program's error joined with the error of closing the store.
func Run(
	ctx context.Context, path string, o store.Options, program func(ctx context.Context, s *Session) error,
) (err error) {
	st, err := store.OpenContext(ctx, path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	s := &Session{Store: st, ctx: ctx}
	defer s.wait()
	defer cancel()
	return program(ctx, s)
}

// Start runs informers until the program returns.
func (s *Session) Start(informers ...*Informer) {
	for _, i := range informers {
		s.informers.Go(func() { i.RunWithContext(s.ctx) })
	}
}

// StartFactories starts the informers that the factories have made so far; they run until the program returns. Call it
// again to start later informers.
func (s *Session) StartFactories(factories ...Factory) {
	s.mu.Lock()
	s.factories = append(s.factories, factories...)
	s.mu.Unlock()
	for _, f := range factories {
		if f, ok := f.(interface{ StartWithContext(context.Context) }); ok {
			f.StartWithContext(s.ctx) // unlike Done, s.ctx carries the logger
			continue
		}
		f.Start(s.ctx.Done())
	}
}

func (s *Session) wait() {
	s.informers.Wait()
	s.mu.Lock()
	factories := s.factories
	s.mu.Unlock()
	for _, f := range factories {
		f.Shutdown() // a factory may be listed twice; its second Shutdown does nothing
	}
}

// RunWithContext runs the informer until ctx ends or the store is closed. When it returns, the informer's goroutines
// have ended and its handlers are not called again. The exception is a write that the disk has not finished five
// seconds after ctx ended. Parts shared with other informers run until the last informer ends. A second call logs a
// warning and returns. RunWithContext fails immediately if the transform has no version, or differs from the other
// informers' transform.
func (i *Informer) RunWithContext(ctx context.Context) {
	defer runtime.HandleCrashWithContext(ctx)
	callerCtx, logger := ctx, i.o.logger(ctx)
	ctx, cancel := context.WithCancelCause(klog.NewContext(ctx, logger))
	defer cancel(delivery.ErrStopped)
	run, err := i.shared.start(i, callerCtx, ctx)
	switch {
	case err != nil:
		i.refuse(err)
		runtime.HandleErrorWithContext(ctx, errors.Join(err, i.Close()), "The informer does not run and will not sync",
			"type", i.o.ObjectDescription)
		return
	case run == nil:
		logger.Info("Warning: the sharedIndexInformer has started, or was closed; run more than once is not allowed")
		return
	}
	var wg sync.WaitGroup
	defer i.leave(ctx, cancel, &wg)
	i.sources.start(ctx)
	i.reviewSource()
	wg.Go(func() { i.resyncLoop(ctx) })
	i.follow(ctx, run)
}

// leave ends a started informer and, if it is the last one attached, the run of its collection. It waits for the
// handlers last, because they may be slow.
func (i *Informer) leave(ctx context.Context, cancel context.CancelCauseFunc, wg *sync.WaitGroup) {
	i.markStopped()
	last := i.shared.detach(i)
	i.reviewSource()
	cancel(delivery.ErrStopped)
	wg.Wait()
	if last || i.shared.ends() {
		i.shared.close() //nolint:errcheck // the run reports its errors
	}
	i.stopDurable(ctx)
	i.notifyEnded()
	i.sources.stop()
	i.processor.Stop()
	i.awaitDurable()
}

// Close closes the collection of an informer that will not be run, unless other informers have it open. The informer
// then counts as stopped, and stays readable. A started informer closes its collection when its run ends. Close does
// not end that run; it announces the end, so that New of another informer waits for the collection.
func (i *Informer) Close() error {
	i.mu.Lock()
	i.closed = true
	if i.started {
		i.mu.Unlock()
		return nil
	}
	i.started, i.stopped = true, true
	i.mu.Unlock()
	last := i.shared.detach(i)
	i.stopDurable(context.Background())
	if !last {
		i.notifyEnded()
		return nil
	}
	return i.shared.close()
}

// closing reports whether the informer is about to end. It reads the run's context, because the goroutine that sets
// stopped may not have noticed the end yet.
func (i *Informer) closing() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.closed || i.stopped || i.running != nil && i.running.Err() != nil
}

func (i *Informer) markStopped() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
}

func (i *Informer) stopDurable(ctx context.Context) {
	i.durableStopped.Do(func() { i.awaitDurable = i.durable.Stop(ctx) })
}

func (i *Informer) refuse(err error) {
	i.mu.Lock()
	i.refused = err
	i.mu.Unlock()
	i.reviewSource()
}

func (i *Informer) notifyEnded() {
	i.endNotified.Do(func() {
		if i.o.Observer != nil {
			i.o.Observer.InformerEnded(i)
		}
	})
}

func (i *Informer) runningContext() context.Context {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running == nil {
		return context.Background()
	}
	return i.running
}

// resyncLoop requests a resync whenever a handler is due, once the informer has synced.
func (i *Informer) resyncLoop(ctx context.Context) {
	i.mu.Lock()
	period := i.resyncCheckPeriod
	i.mu.Unlock()
	if period <= 0 {
		return
	}
	select {
	case <-i.synced.done:
	case <-ctx.Done():
		return
	}
	for base.Sleep(ctx, i.clock, period) == nil {
		if i.processor.ResyncDue(i.clock.Now()) {
			i.resyncs.Store(true)
			i.shared.asks.ToResync()
		}
	}
}

// clusterInUse holds the id of the cluster to which a collection's run is connected.
type clusterInUse struct {
	mu      sync.Mutex    // mu guards id, known and changed
	id      string        // id is "" if the cluster id cannot be read
	known   bool          // known is true once the server has answered in this run
	changed chan struct{} // changed is closed at the next change of id or known
}

func (c *clusterInUse) set(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || c.id != id {
		c.id, c.known = id, true
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

func (c *clusterInUse) get() (id string, known bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id, c.known, c.changed
}

// claimCluster returns a function that claims the file for a cluster id. That function fails if another collection of
// the file is in use for another cluster. For objects in memory, claimCluster returns nil.
func (i *sharedInformer) claimCluster() func(id string, exchanged bool) error {
	if i.collection == nil {
		return nil
	}
	return func(id string, exchanged bool) error {
		err := i.collection.ClaimCluster(id, exchanged)
		if err == nil {
			i.cluster.set(id)
		}
		return err
	}
}

// hasOwnClient reports whether the informer's client may be for another cluster than the client of the first Informer.
func (i *Informer) hasOwnClient() bool {
	return !i.first && i.o.ClusterID != nil && i.shared.o.ClusterID != nil
}

// follow starts the delivery of changes to the handlers, and returns when ctx or the run ends. An informer with a
// client of its own compares that client's cluster with the run's cluster before the delivery, and at each change of
// the run's cluster. With SyncPolicy Disk, which serves stored objects without a server, the delivery starts before
// that comparison. If the clusters differ, the handlers get no further changes.
func (i *Informer) follow(ctx, run context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(delivery.ErrStopped)
	// The run ends before ctx if the store was closed, or the reflector has stopped.
	defer context.AfterFunc(run, func() { cancel(delivery.ErrStopped) })()
	own := i.hasOwnClient()
	if !own || i.o.SyncPolicy == Disk {
		i.joinHandlers(ctx)
	}
	for {
		theirs, known, changed := i.shared.cluster.get()
		if own && known {
			err := i.compareCluster(ctx, theirs)
			switch {
			case ctx.Err() != nil:
				return // compareCluster was interrupted, so the handlers must not join
			case err != nil:
				i.leaveRun(ctx, err)
				changed, own = nil, false
			default:
				i.joinHandlers(ctx)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// leaveRun stops the handlers, because the run is connected to another cluster. err names the clusters.
func (i *Informer) leaveRun(ctx context.Context, err error) {
	i.shared.removeJoined(i)
	i.refuse(err)
	i.reportError(ctx, err)
	i.stopDurable(ctx)
	if i.hasJoined() {
		i.processor.Stop()
	}
}

// compareCluster reads the cluster id with the informer's own client, and returns an error if it differs from theirs,
// the id of the run's cluster. It retries until the server answers or ctx ends. If the id cannot be read, the clusters
// count as the same.
func (i *Informer) compareCluster(ctx context.Context, theirs string) error {
	read := attributes.Bounded("Options.ClusterID", i.o.ClusterID)
	for delay := storeBackoff(); ; {
		mine, err := read(ctx)
		switch {
		case err == nil && mine != "" && theirs != "" && mine != theirs:
			return fmt.Errorf("%w: another informer fills %s from the cluster %s, and the client of this one is for %s; each "+
				"cluster needs a store of its own", store.ErrOtherCluster, i.Identity(), theirs, mine)
		case err == nil || limiter.Final(err):
			return nil //nolint:nilerr // an id that cannot be read counts as equal
		}
		if base.Sleep(ctx, i.clock, delay.Step()) != nil {
			return nil //nolint:nilerr // the informer ends
		}
	}
}
