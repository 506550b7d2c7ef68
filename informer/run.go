package informer

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/patient"
)

// RunWithContext runs the informer until ctx ends, or the store is closed. When it returns, the informer's goroutines
// have ended, except for a write that the disk has not finished five seconds after that; the handlers are called no
// more. What it shares with other informers goes on until the last of them has ended. It runs once; a second call logs
// a warning and returns. With a transform that lacks a version, or is not that of the other informers, it fails at
// once.
func (i *Informer) RunWithContext(ctx context.Context) {
	defer runtime.HandleCrashWithContext(ctx)
	given, logger := ctx, i.o.logger(ctx)
	ctx, cancel := context.WithCancelCause(klog.NewContext(ctx, logger))
	defer cancel(delivery.ErrStopped)
	run, err := i.shared.start(i, given, ctx)
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

// leave ends the informer, which has been started, and, if it is the last one attached, the run of its collection. It
// stops its goroutines in order, and waits: the handlers last, since they may be slow.
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
	i.tellEnded()
	i.sources.stop()
	i.processor.Stop()
	i.awaitDurable()
}

// Close closes the collection of an informer that will not be run, unless other informers have it. The informer counts
// as stopped then, and can still be read. An informer that has been started closes its collection when its run ends.
// Close does not end that run: it says that the run is about to end, so that New of another informer waits for the
// collection.
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
		i.tellEnded()
		return nil
	}
	return i.shared.close()
}

// closing reports whether the informer is about to end. It reads the run's context, since the goroutine that sets
// stopped may not have noticed its end yet.
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

// stopDurable stops the durable handlers, once.
func (i *Informer) stopDurable(ctx context.Context) {
	i.durableStopped.Do(func() { i.awaitDurable = i.durable.Stop(ctx) })
}

// refuse records why the informer gets no changes.
func (i *Informer) refuse(err error) {
	i.mu.Lock()
	i.refused = err
	i.mu.Unlock()
	i.reviewSource()
}

// tellEnded tells the observer, once, that the run has ended.
func (i *Informer) tellEnded() {
	i.told.Do(func() {
		if i.o.Observer != nil {
			i.o.Observer.InformerEnded(i)
		}
	})
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

// resyncLoop requests a resync whenever one of the handlers is due, once the informer has synced.
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
	for patient.Sleep(ctx, i.clock, period) == nil {
		if i.processor.ResyncDue(i.clock.Now()) {
			i.resyncs.Store(true)
			i.shared.asks.ToResync()
		}
	}
}
