package informer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/patient"
)

// A page of a backlog has up to backlogObjects objects, as a page of the store, or about backlogBytes, by the size of
// its first object. A page of the store has fewer bytes: else objects beyond the end of ours would be decoded twice.
const (
	backlogObjects = 500
	backlogBytes   = 16 << 20
)

// pages reads pages for backlogs. Handlers that need the same page, as those registered before the start often do,
// share the decoded objects.
type pages struct {
	limit int // maximum number of objects of a page
	// turn is a lock: it holds a token while a page is read. A handler that waits for it may need the same page.
	turn chan struct{}
	last weak.Pointer[delivery.Page] // the last page that was read; guarded by turn
	told uint64                      // tells when the read of last began; guarded by turn
	// tells counts how often changes have been distributed to the handlers.
	tells atomic.Uint64
}

func (s *pages) init() {
	s.limit, s.turn = backlogObjects, make(chan struct{}, 1)
}

// read returns the page that begins after a key. It has all changes that were distributed before the call.
func (s *pages) read(ctx context.Context, i *Informer, after string) (*delivery.Page, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	told := s.tells.Load()
	if p := s.last.Value(); p != nil && p.After == after && s.told == told {
		return p, nil
	}
	p, err := i.readPage(ctx, after)
	if err != nil {
		return nil, err
	}
	s.last, s.told = weak.Make(p), told
	return p, nil
}

var errPageFull = errors.New("the page is full")

func (i *Informer) readPage(ctx context.Context, after string) (*delivery.Page, error) {
	p, limit := &delivery.Page{After: after}, 0
	lost, err := i.eachStored(ctx, after, func(key string, obj runtime.Object) error {
		if limit == 0 {
			limit = min(i.pages.limit, backlogBytes/max(1, int(sizeOf(obj)))+1)
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

// pageSource implements delivery.Source for an informer's handlers.
type pageSource struct{ i *Informer }

func (s pageSource) NextPage(l *delivery.Listener) { s.i.nextPage(l) }

func (s pageSource) NextResync(l *delivery.Listener) { s.i.giveResync(l.Ctx, l) }

func (s pageSource) Called(handler string, took time.Duration) {
	if o := s.i.o.Observer; o != nil {
		o.HandlerCalled(s.i, handler, took)
	}
}

// givePage reads the next page of l's backlog and queues its calls. It leaves out and returns the objects that cannot
// be read. After an error, nothing has been queued, and it can be called again.
func (i *Informer) givePage(ctx context.Context, l *delivery.Listener) (lost []delivery.Unreadable, err error) {
	p, err := i.pages.read(ctx, i, l.PageAfter())
	if err != nil {
		return nil, err
	}
	for _, obj := range p.Objects {
		i.detector.AddObject(obj)
	}
	if err := i.deltasMu.LockContext(ctx); err != nil { // its holder may be waiting for the disk
		return nil, err
	}
	defer i.deltasMu.Unlock()
	l.AddPage(p)
	return p.Lost, nil
}

// nextPage calls givePage until it succeeds, or l is stopped.
func (i *Informer) nextPage(l *delivery.Listener) {
	reported := false
	for delay := storeBackoff(); ; {
		lost, err := i.givePage(l.Ctx, l)
		switch {
		case err == nil:
			i.leftOut(l, lost)
			return
		case l.Ctx.Err() != nil || isClosed(err):
			return
		case !reported:
			utilruntime.HandleErrorWithContext(l.Ctx, err, "Stored objects cannot be read for an event handler; trying again",
				"type", i.o.ObjectDescription, "handler", l.Name)
			reported = true
		}
		if patient.Sleep(l.Ctx, i.clock, delay.Step()) != nil {
			return
		}
	}
}

// leftOut reports the objects that a page has left out, and requests a list that rewrites them.
func (i *Informer) leftOut(l *delivery.Listener, lost []delivery.Unreadable) {
	i.reportUnreadable(l.Ctx, lost)
	if len(lost) == 0 || !l.Mends() {
		return
	}
	i.asks.toReplace(lost[0].Err)
}

// resync starts a resync of the handlers that are due: each gets the first page of the stored objects.
func (p *loop) resync(ctx context.Context) {
	for _, l := range p.processor.Resyncing() {
		if l.StartResync() {
			p.giveResync(ctx, l)
		}
	}
}

// giveResync reads the next page of l's resync and queues its calls. If the store cannot be read, the resync ends.
func (i *Informer) giveResync(ctx context.Context, l *delivery.Listener) {
	p, err := i.pages.read(ctx, i, l.ResyncAfter())
	if err == nil {
		i.reportUnreadable(ctx, p.Lost)
		err = i.deltasMu.LockContext(ctx)
	}
	if err != nil {
		l.EndResync()
		if ctx.Err() == nil && !isClosed(err) {
			utilruntime.HandleErrorWithContext(ctx, err, "Resync stopped half-way: the store cannot be read", "type",
				i.o.ObjectDescription, "handler", l.Name)
		}
		return
	}
	defer i.deltasMu.Unlock()
	l.AddResync(p)
}
