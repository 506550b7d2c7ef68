package informer

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/internal/patient"
)

// A page of a backlog ends at so many objects, as those of the store do, or at about so many bytes, by the size of its first. That is more than
// the store's have: what it has decoded behind the end of ours is decoded again.
const (
	backlogObjects = 500
	backlogBytes   = 16 << 20
)

// storedPage is stored objects in key order. It is not changed.
type storedPage struct {
	after string
	keys  []string
	objs  []runtime.Object
	// to is the last key that it covers; empty if there are none after it.
	to   string
	lost []unreadable
}

func (p *storedPage) covers(key string) bool { return key > p.after && (p.to == "" || key <= p.to) }

// with returns a page that has obj under key, or nothing if obj is nil.
func (p *storedPage) with(key string, obj runtime.Object) *storedPage {
	next := *p
	next.keys, next.objs = slices.Clone(p.keys), slices.Clone(p.objs)
	at, found := slices.BinarySearch(next.keys, key)
	if found {
		next.keys, next.objs = slices.Delete(next.keys, at, at+1), slices.Delete(next.objs, at, at+1)
	}
	if obj != nil {
		next.keys, next.objs = slices.Insert(next.keys, at, key), slices.Insert(next.objs, at, obj)
	}
	return &next
}

// pages reads pages for backlogs. Handlers that are equally far, as those from before the start often are, share what has been decoded.
type pages struct {
	limit int // objects of a page
	// turn has a token while somebody reads: who comes meanwhile may want the same.
	turn chan struct{}
	last weak.Pointer[storedPage] // whoever has the turn
	told uint64                   // tells as it was when last was begun; likewise
	// tells counts how often changes have been told.
	tells atomic.Uint64
}

func (s *pages) init() {
	s.limit, s.turn = backlogObjects, make(chan struct{}, 1)
}

// read returns the page that begins after a key. It has at least what was told before the call.
func (s *pages) read(ctx context.Context, i *Informer, after string) (*storedPage, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	told := s.tells.Load()
	if p := s.last.Value(); p != nil && p.after == after && s.told == told {
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

func (i *Informer) readPage(ctx context.Context, after string) (*storedPage, error) {
	p, limit := &storedPage{after: after}, 0
	lost, err := i.eachStored(ctx, after, func(key string, obj runtime.Object) error {
		if limit == 0 {
			limit = min(i.pages.limit, backlogBytes/max(1, int(sizeOf(obj)))+1)
		}
		p.keys, p.objs = append(p.keys, key), append(p.objs, obj)
		if len(p.keys) == limit {
			p.to = key
			return errPageFull
		}
		return nil
	})
	if p.lost = lost; errors.Is(err, errPageFull) {
		err = nil
	}
	return p, err
}

// givePage reads the next page of l's backlog and queues its calls. After an error, when none has been queued, it can be called again.
// It returns what can not be read, which is left out.
func (i *Informer) givePage(ctx context.Context, l *listener) (lost []unreadable, err error) {
	p, err := i.pages.read(ctx, i, l.pageAfter())
	if err != nil {
		return nil, err
	}
	for _, obj := range p.objs {
		i.detector.AddObject(obj)
	}
	if err := i.deltasMu.LockContext(ctx); err != nil { // the disk may have the one who holds it
		return nil, err
	}
	defer i.deltasMu.Unlock()
	l.addPage(p)
	return p.lost, nil
}

// nextPage is givePage until that succeeds, or l is stopped.
func (i *Informer) nextPage(l *listener) {
	reported := false
	for delay := storeBackoff(); ; {
		lost, err := i.givePage(l.ctx, l)
		switch {
		case err == nil:
			i.leftOut(l, lost)
			return
		case l.ctx.Err() != nil || isClosed(err):
			return
		case !reported:
			utilruntime.HandleErrorWithContext(l.ctx, err, "Stored objects can not be read for an event handler; trying again", "type", i.o.ObjectDescription, "handler", l.name)
			reported = true
		}
		if patient.Sleep(l.ctx, i.clock, delay.Step()) != nil {
			return
		}
	}
}

// leftOut reports what a page has left out, and asks for it to be listed anew.
func (i *Informer) leftOut(l *listener, lost []unreadable) {
	i.reportUnreadable(l.ctx, lost)
	l.mu.Lock()
	mends := l.backlog.mends
	l.mu.Unlock()
	if len(lost) == 0 || !mends {
		return
	}
	d := fifo.Delta{Delta: cache.Delta{Type: storeUnreadable, Object: lost[0].err}}
	if err := i.queue.Push(l.ctx, d); err != nil && l.ctx.Err() == nil && !errors.Is(err, cache.ErrFIFOClosed) {
		utilruntime.HandleErrorWithContext(l.ctx, err, "Stored objects that can not be read are not listed anew", "type", i.o.ObjectDescription)
	}
}
