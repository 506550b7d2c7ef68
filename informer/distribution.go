package informer

import (
	"context"
	"errors"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/informer/internal/asks"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store"
)

// A page of stored objects for a handler has up to backlogObjects objects, as many as a page of the store, or about
// backlogBytes, estimated from the page's first object. backlogBytes exceeds the store's pages: otherwise objects of a
// store's page beyond the handler's page would be decoded twice.
const (
	backlogObjects = 500
	backlogBytes   = 16 << 20
)

// distribution queues the stored objects for handlers, page by page, for replays and resyncs. deltasMu keeps the pages
// consistent with the changes that the process loop distributes. Handlers that need the same page share its decoded
// objects; handlers registered before the start usually do.
type distribution struct {
	store       store.Interface
	detector    cache.MutationDetector // detector gets every object that is read
	asks        *asks.Asks
	clock       clock.WithTicker
	description string // description names the objects in log lines

	// deltasMu is held while a batch is applied and queued for the handlers, while a late handler joins, and while a
	// page is queued for a handler. Of user code, only index functions run under it.
	deltasMu base.Mutex

	limit int // limit is the maximum number of objects of a page
	// reading is a lock: a handler that waits for it may need the page that is being read.
	reading   chan struct{}
	last      weak.Pointer[delivery.Page] // last is the last page that was read; reading guards it and lastCount
	lastCount uint64                      // lastCount is the value of distributions when the read of last began
	// distributions counts the distributions of changes to the handlers. A new count makes last stale.
	distributions atomic.Uint64
}

func newDistribution(i *sharedInformer) *distribution {
	return &distribution{
		store: i.store, detector: i.detector, deltasMu: base.NewMutex(), asks: &i.asks, clock: i.clock,
		description: i.o.ObjectDescription, limit: backlogObjects, reading: make(chan struct{}, 1),
	}
}

// read returns the page of stored objects after the given key, with all changes that were distributed before the call.
func (d *distribution) read(ctx context.Context, after string) (*delivery.Page, error) {
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	count := d.distributions.Load()
	if p := d.last.Value(); p != nil && p.After == after && d.lastCount == count {
		return p, nil
	}
	p, err := d.readPage(ctx, after)
	if err != nil {
		return nil, err
	}
	d.last, d.lastCount = weak.Make(p), count
	return p, nil
}

var errPageFull = errors.New("the page is full")

func (d *distribution) readPage(ctx context.Context, after string) (*delivery.Page, error) {
	p, limit := &delivery.Page{After: after}, 0
	lost, err := d.each(ctx, after, func(key string, obj runtime.Object) error {
		if limit == 0 {
			limit = min(d.limit, backlogBytes/max(1, int(sizeOf(obj)))+1)
		}
		p.Keys, p.Objects = append(p.Keys, key), append(p.Objects, obj)
		if len(p.Keys) == limit {
			p.To = key
			return errPageFull
		}
		return nil
	})
	if p.Lost = lost; errors.Is(err, errPageFull) {
		err = nil
	}
	return p, err
}

// queuePage reads the next page of l's backlog and queues its calls. It skips and returns unreadable objects. After an
// error nothing has been queued, and queuePage can be called again.
func (d *distribution) queuePage(ctx context.Context, l *delivery.Listener) (lost []delivery.Unreadable, err error) {
	p, err := d.read(ctx, l.PageAfter())
	if err != nil {
		return nil, err
	}
	for _, obj := range p.Objects {
		d.detector.AddObject(obj)
	}
	if err := d.deltasMu.LockContext(ctx); err != nil { // the holder of deltasMu may be waiting for the disk
		return nil, err
	}
	defer d.deltasMu.Unlock()
	l.AddPage(p)
	return p.Lost, nil
}

// nextPage calls queuePage until it succeeds, or l is stopped.
func (d *distribution) nextPage(l *delivery.Listener) {
	reported := false
	for delay := storeBackoff(); ; {
		lost, err := d.queuePage(l.Ctx, l)
		switch {
		case err == nil:
			d.leftOut(l, lost)
			return
		case l.Ctx.Err() != nil || isClosed(err):
			return
		case !reported:
			utilruntime.HandleErrorWithContext(l.Ctx, err, "Stored objects cannot be read for an event handler; trying again",
				"type", d.description, "handler", l.Name)
			reported = true
		}
		if base.Sleep(l.Ctx, d.clock, delay.Step()) != nil {
			return
		}
	}
}

// leftOut logs the unreadable objects of a page, and requests a list that rewrites them.
func (d *distribution) leftOut(l *delivery.Listener, lost []delivery.Unreadable) {
	d.report(l.Ctx, lost)
	if len(lost) == 0 || !l.NeedsList() {
		return
	}
	d.asks.ToReplace(lost[0].Err)
}

// queueResync reads the next page of l's resync and queues its calls. If the store cannot be read, the resync ends.
func (d *distribution) queueResync(ctx context.Context, l *delivery.Listener) {
	p, err := d.read(ctx, l.ResyncAfter())
	if err == nil {
		d.report(ctx, p.Lost)
		err = d.deltasMu.LockContext(ctx)
	}
	if err != nil {
		l.EndResync()
		if ctx.Err() == nil && !isClosed(err) {
			utilruntime.HandleErrorWithContext(ctx, err, "Resync stopped half-way: the store cannot be read", "type",
				d.description, "handler", l.Name)
		}
		return
	}
	defer d.deltasMu.Unlock()
	l.AddResync(p)
}

// report logs unreadable objects. The caller holds no lock.
func (d *distribution) report(ctx context.Context, lost []delivery.Unreadable) {
	for _, u := range lost {
		utilruntime.HandleErrorWithContext(ctx, u.Err, "Stored object cannot be read", "type", d.description, "key",
			u.Key)
	}
}

// each calls fn for each object whose key is after the given one. It skips and returns unreadable objects, which the
// caller must report. err is fn's error, or an error of the whole store.
func (d *distribution) each(
	ctx context.Context, after string, fn func(key string, obj runtime.Object) error,
) (lost []delivery.Unreadable, err error) {
	var fnErr error
	err = d.store.Iterate(ctx, after, func(key string, obj runtime.Object) error {
		after = key
		fnErr = fn(key, obj)
		return fnErr
	})
	if err == nil || fnErr != nil || ctx.Err() != nil || isClosed(err) {
		return nil, err
	}
	// A record is unreadable: read the remaining objects one by one, to find the unreadable ones.
	keys, err := d.store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if key <= after {
			continue
		}
		obj, err := d.store.Get(ctx, key)
		switch {
		case ctx.Err() != nil || isClosed(err):
			return lost, err
		case err != nil:
			lost = append(lost, delivery.Unreadable{Key: key, Err: err})
		case obj != nil:
			if err := fn(key, obj); err != nil {
				return lost, err
			}
		}
	}
	return lost, nil
}
