package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/larder-dev/larder/informer/internal/delivery"
)

// minimumResyncPeriod is client-go's.
const minimumResyncPeriod = time.Second

// AddEventHandler registers a handler with the informer's resync period.
func (i *Informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod registers a handler with a resync period of its own; 0 is no resyncs.
func (i *Informer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, resyncPeriod time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions registers a handler. Once the informer runs, the handler gets OnAdd(…, true) for each
// object in the store first, a page at a time. It fails after the informer has stopped, and if the store cannot be
// read at all; single objects that cannot be read are reported and left out.
func (i *Informer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	logger := ptr.Deref(options.Logger, klog.Background())
	l := delivery.New(handler, logger, i.clock, i.HasSyncedChecker(), pageSource{i})
	var due delivery.Lines
	late, err := i.register(l, ptr.Deref(options.ResyncPeriod, i.o.ResyncPeriod), &due)
	if err == nil && late {
		err = i.join(l, &due)
	}
	due.Log()
	if errors.Is(err, delivery.ErrStopped) { // in client-go's words, which programs look for
		return nil, fmt.Errorf("handler %s was not added to shared informer because it has stopped already", l.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("handler %s was not added to the informer: %w", l.Name, err)
	}
	return l, nil
}

// register settles the resync period of l, and adds it unless the informer runs already: then it has to join.
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

// warning takes a line that is to be logged once no lock is held.
type warning func(msg string, keysAndValues ...any)

// requestedResyncLocked applies the lower bounds to what a user asked for; before the start, a shorter
// period than all others shortens the check period instead.
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

// effectiveResync is the period that a handler gets when the informer checks every check.
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

// join adds l to a running informer. While it holds deltasMu nothing is distributed: l gets what is stored then, a page
// at a time, and every change from then on.
func (i *Informer) join(l *delivery.Listener, due *delivery.Lines) error {
	replays, err := i.joinDistribution(l)
	if err != nil || !replays {
		return err
	}
	lost, err := i.givePage(l.Ctx, l)
	if l.Ctx.Err() != nil {
		return delivery.ErrStopped
	}
	if err != nil {
		return errors.Join(err, i.processor.Remove(l))
	}
	due.Add(func() { i.reportUnreadable(l.Ctx, lost) })
	return nil
}

// joinDistribution adds l to those that changes are distributed to, and reports whether it is to be told of what is
// stored.
func (i *Informer) joinDistribution(l *delivery.Listener) (replays bool, err error) {
	if err := i.deltasMu.LockContext(i.runningContext()); err != nil {
		return false, delivery.ErrStopped
	}
	defer i.deltasMu.Unlock()
	if replays, err = i.holdsStateLocked(); err != nil {
		return false, err
	}
	if replays {
		l.StartReplay(false)
	}
	return replays, i.processor.Add(l)
}

// holdsStateLocked reports whether handlers are to be told of what is stored. They are not while it is what a cold
// start, interrupted in an earlier process, has left: the first list removes that.
func (i *Informer) holdsStateLocked() (bool, error) {
	if i.listBegun {
		return true, nil
	}
	info, err := i.store.Info(context.Background())
	return info.Complete, err
}

// RemoveEventHandler removes a handler, durable or not. It does not wait for the call that is being made: see
// cache.ShutDownEventHandler. What is pending for it is dropped.
func (i *Informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	if i.durable.Remove(handle) {
		return nil
	}
	return i.processor.Remove(handle)
}
