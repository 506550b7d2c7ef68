package informer

import (
	"context"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// resyncing is how far a handler has come in a resync. It goes through the stored objects in key order, a page at a time: the next page is read when
// the calls of the last one, and what was queued before them, have been taken for delivery. So a slow handler holds a page, and not the collection.
//
// An object that changes while its page is read is left out, since the change tells of it; what has been queued is followed by what changes
// later. So no call has an older state than one before it, and none comes after the object's delete.
//
// The listener's mu guards it.
type resyncing struct {
	active bool
	// again: another resync was due before this one had ended.
	again bool
	after string // what a page has come to
	// reading: somebody reads the next page; changed are the keys that were told of since.
	reading bool
	changed map[string]struct{}
	// through is the number in pending that the last page ends before.
	through uint64
}

// startResync begins a resync. It reports whether the caller has to give the first page now; else run does, once the stored objects of the
// replay have been told, or the resync that is under way has ended.
func (l *listener) startResync() (give bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.resync
	switch {
	case l.hasStopped:
		return false
	case r.active:
		r.again = true
		return false
	}
	give = !l.backlog.active
	*r = resyncing{active: true, reading: give}
	return give
}

// claimResync reports whether it is time for the next page of a resync, which the caller then has to give.
func (l *listener) claimResync() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.resync
	if !r.active || r.reading || l.backlog.active || l.pending.head < r.through {
		return false
	}
	r.reading = true
	return true
}

// resyncAfter is where the next page begins.
func (l *listener) resyncAfter() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resync.after
}

// addResync queues the calls of a page. The caller holds deltasMu, so that nothing is told meanwhile.
func (l *listener) addResync(p *storedPage) {
	defer l.poke() // a page may be empty
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.resync
	if !r.active { // it has been stopped
		return
	}
	for n, key := range p.keys {
		if _, told := r.changed[key]; !told {
			l.pending.put(notification{typ: cache.Updated, key: key, old: p.objs[n], new: p.objs[n], resync: true})
		}
	}
	r.reading, r.changed, r.after, r.through = false, nil, p.to, l.pending.tail
	if p.to == "" {
		r.end()
	}
}

// end ends the resync, or begins the next if that is due.
func (r *resyncing) end() {
	*r = resyncing{active: r.again, through: r.through}
}

func (l *listener) endResync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resync.end()
}

// resync begins to send every stored object to the handlers that are resyncing, each with the first page.
func (p *pump) resync(ctx context.Context) error {
	for _, l := range p.processor.resyncing() {
		if l.startResync() {
			p.giveResync(ctx, l)
		}
	}
	return nil
}

// giveResync reads the next page of l's resync and queues its calls. If the store can not be read the resync ends.
func (i *Informer) giveResync(ctx context.Context, l *listener) {
	p, err := i.pages.read(ctx, i, l.resyncAfter())
	if err == nil {
		i.reportUnreadable(ctx, p.lost)
		err = i.deltasMu.LockContext(ctx)
	}
	if err != nil {
		l.endResync()
		if ctx.Err() == nil && !isClosed(err) {
			utilruntime.HandleErrorWithContext(ctx, err, "Resync stopped half-way: the store can not be read", "type", i.o.ObjectDescription, "handler", l.name)
		}
		return
	}
	defer i.deltasMu.Unlock()
	l.addResync(p)
}
