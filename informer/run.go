package informer

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/base"
)

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
