package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store"
)

// minimumResyncPeriod is the lower bound of a handler's resync period, the same as in client-go.
const minimumResyncPeriod = time.Second

// AddEventHandler registers a handler with the informer's resync period.
func (i *Informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod registers a handler with a resync period of its own; 0 disables resyncs.
func (i *Informer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, resyncPeriod time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions registers a handler. Once the informer runs, the handler first gets OnAdd(…, true) for
// each stored object. The method fails after the informer has stopped, and if the store cannot be read. Unreadable
// objects are reported and left out. While the commit of a list hangs, the method waits.
//
// A handler gets the stored objects in pages of up to 500. The next page is read when the calls for a page have
// returned. So a slow handler holds in memory one page and the changes since, and delays no other handler. Handlers at
// the same page share the decoded objects.
//
// While fewer than 1,024 calls are pending, a handler gets every event. From then on, successive updates of one object
// are merged into one OnUpdate, with the first old state and the last new one, at the position of the first. No
// addition or deletion is dropped, and the calls of one object stay in order. An addition keeps isInInitialList. A
// deletion and the next addition stay two calls, and an update after a pending addition stays a call of its own.
// Earlier pending calls stay as they are. Resyncs merge likewise, and hide no change. So at most 1,024 calls are
// pending, plus two for each object and three for each deletion, however long a handler sleeps.
//
// Status.Handlers and package metrics have the numbers of pending calls and merged updates. The log
// (HandlerOptions.Logger) names a handler that gets an event at 1,024 pending calls, at most once in ten minutes. It
// names the handler again when no call is pending and the last call has returned. Replays and resyncs are not logged.
func (i *Informer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	logger := ptr.Deref(options.Logger, klog.Background())
	l := delivery.New(handler, logger, i.clock, i.HasSyncedChecker(), handlerSource{i})
	var due delivery.Lines
	late, err := i.register(l, ptr.Deref(options.ResyncPeriod, i.o.ResyncPeriod), &due)
	if err == nil && late {
		err = i.join(l, &due)
	}
	due.Log()
	if errors.Is(err, delivery.ErrStopped) { // programs compare client-go's message
		return nil, fmt.Errorf("handler %s was not added to shared informer because it has stopped already", l.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("handler %s was not added to the informer: %w", l.Name, err)
	}
	return l, nil
}

// register sets the resync period of l and adds l. If the informer has started, it does not add l and returns late =
// true: the caller must call join.
func (i *Informer) register(l *delivery.Listener, resync time.Duration, due *delivery.Lines) (late bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return false, delivery.ErrStopped
	}
	warn := func(msg string, keysAndValues ...any) {
		due.Add(func() { l.Logger.Info("Warning: "+msg, keysAndValues...) })
	}
	requested := i.requestedResyncLocked(warn, resync)
	l.SetResync(requested, effectiveResync(warn, requested, i.resyncCheckPeriod))
	if i.started {
		return true, nil
	}
	return false, i.processor.Add(l)
}

// A warning queues a log line, which is written when no lock is held.
type warning func(msg string, keysAndValues ...any)

// requestedResyncLocked applies the lower bounds to the requested period. Before the start, a period that is shorter
// than the check period becomes the check period.
func (i *Informer) requestedResyncLocked(warn warning, period time.Duration) time.Duration {
	if period <= 0 {
		return period
	}
	if period < minimumResyncPeriod {
		warn("resync period is too small. Changing it to the minimum allowed value", "resyncPeriod", period,
			"minimumResyncPeriod", minimumResyncPeriod)
		period = minimumResyncPeriod
	}
	if period >= i.resyncCheckPeriod {
		return period
	}
	if i.started {
		warn(
			"resync period is smaller than resync check period and the informer has already started. Changing it to the "+
				"resync check period", "resyncPeriod", period, "resyncCheckPeriod", i.resyncCheckPeriod)
		return i.resyncCheckPeriod
	}
	i.resyncCheckPeriod = period
	i.processor.Each(func(l *delivery.Listener) {
		l.LimitResync(func(requested time.Duration) time.Duration { return effectiveResync(warn, requested, period) })
	})
	return period
}

func effectiveResync(warn warning, desired, check time.Duration) time.Duration {
	if desired == 0 {
		return 0
	}
	if check == 0 {
		warn("the specified resyncPeriod is invalid because this shared informer doesn't support resyncing", "desired",
			desired)
		return 0
	}
	if desired < check {
		warn("the specified resyncPeriod is being increased to the minimum resyncCheckPeriod", "desired", desired,
			"resyncCheckPeriod", check)
		return check
	}
	return desired
}

// join adds l to a running informer. l gets the objects stored at that moment, a page at a time, and then every change.
func (i *Informer) join(l *delivery.Listener, due *delivery.Lines) error {
	replays, err := i.joinDistribution(l)
	if err != nil || !replays {
		return err
	}
	lost, err := i.shared.distribution.queuePage(l.Ctx, l)
	if l.Ctx.Err() != nil {
		return delivery.ErrStopped
	}
	if err != nil {
		return errors.Join(err, i.processor.Remove(l))
	}
	due.Add(func() { i.shared.distribution.report(l.Ctx, lost) })
	return nil
}

// joinDistribution adds l to the handlers that get changes, and reports whether l must get the stored objects first. It
// holds deltasMu, so no change is distributed meanwhile. It fails if the informer gets no changes.
func (i *Informer) joinDistribution(l *delivery.Listener) (replays bool, err error) {
	if err := i.shared.distribution.deltasMu.LockContext(i.runningContext()); err != nil {
		return false, delivery.ErrStopped
	}
	defer i.shared.distribution.deltasMu.Unlock()
	if err := i.refusal(); err != nil {
		return false, err
	}
	if !i.hasJoined() { // joinHandlers will start l with the informer's other handlers
		return false, i.processor.Add(l)
	}
	if replays, err = i.shared.holdsStateLocked(); err != nil {
		return false, err
	}
	if replays {
		l.StartReplay(false, true)
	}
	return replays, i.processor.Add(l)
}

// joinHandlers starts the durable handlers of i. Unless the run began with the ordinary handlers of i, it also starts
// the delivery of changes to them; they first get the stored objects, a page at a time. It retries until the store can
// be read or ctx ends. Further calls do nothing.
func (i *Informer) joinHandlers(ctx context.Context) {
	i.durable.Start(ctx)
	for delay := storeBackoff(); !i.hasJoined(); {
		err := i.tryJoin(ctx)
		if err == nil || ctx.Err() != nil {
			break
		}
		utilruntime.HandleErrorWithContext(ctx, err, "The store cannot be read for an informer; trying again", "type",
			i.o.ObjectDescription)
		if base.Sleep(ctx, i.clock, delay.Step()) != nil {
			return
		}
	}
	if i.shared.sync.isDone() {
		i.synced.complete()
	}
}

func (i *Informer) tryJoin(ctx context.Context) error {
	d := i.shared.distribution
	if err := d.deltasMu.LockContext(ctx); err != nil {
		return err
	}
	defer d.deltasMu.Unlock()
	replays, err := i.shared.holdsStateLocked()
	if err != nil {
		return err
	}
	for _, l := range i.processor.Start() {
		if replays {
			l.StartReplay(true, false)
		}
	}
	i.mu.Lock()
	i.joined = true
	i.mu.Unlock()
	i.shared.addJoined(i)
	return nil
}

type handlerSource struct{ i *Informer }

var _ delivery.Source = handlerSource{}

func (s handlerSource) NextPage(l *delivery.Listener) { s.i.shared.distribution.nextPage(l) }
func (s handlerSource) NextResync(l *delivery.Listener) {
	s.i.shared.distribution.queueResync(l.Ctx, l)
}

func (s handlerSource) Called(handler string, took time.Duration) {
	if o := s.i.o.Observer; o != nil {
		o.HandlerCalled(s.i, handler, took)
	}
}

// RemoveEventHandler removes a handler, durable or not, and drops its pending calls. It does not wait for a running
// call: see cache.ShutDownEventHandler.
func (i *Informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	if i.durable.Remove(handle) {
		return nil
	}
	return i.processor.Remove(handle)
}

// Durable returns the durable handlers; see package durable. Handlers can be added until the run ends.
func (i *Informer) Durable() *durable.Handlers { return i.durable }

func (i *sharedInformer) durableOptions() durable.Options {
	o := durable.Options{Description: i.o.ObjectDescription, Synced: i.sync.done, InMemory: i.memoryOnly, Clock: i.clock}
	if c, ok := i.store.(*store.Collection); ok {
		o.Collection, o.Flush = c, i.o.Store.Flush
		info, err := c.Info(context.Background())
		o.Types, o.AsSent = i.attrs.Schema, err == nil && codec.AsSent(info.Attributes.Schema)
	}
	return o
}
