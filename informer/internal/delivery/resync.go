package delivery

import (
	"k8s.io/client-go/tools/cache"
)

// resyncing is the progress of a handler's resync. It reads the stored objects in key order, page by page. The next
// page is read when the calls of the last page, and the calls queued before them, have been taken for delivery. So a
// slow handler keeps one page in memory, not the collection.
//
// If an object changes while its page is read, the page leaves it out, since the handler gets the change. Later changes
// are queued after the page. So no call has an older state than an earlier call, and none follows the object's delete.
//
// The listener's mu guards it.
type resyncing struct {
	paging
	// again is true if a further resync became due before the end of the current resync.
	again bool
	// changed has the keys of the changes that were queued while the next page was being read.
	changed map[string]struct{}
	// through is the number, in pending, of the notification after the last page's calls.
	through uint64
}

// StartResync starts a resync. If it returns true, the caller must add the first page now. Otherwise the listener's
// goroutine reads that page once the backlog has been delivered or the current resync has ended.
func (l *Listener) StartResync() (give bool) {
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
	*r = resyncing{paging: paging{active: true, reading: give}}
	return give
}

func (l *Listener) claimResync() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resync.claim(!l.backlog.active && l.pending.head >= l.resync.through)
}

func (l *Listener) ResyncAfter() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resync.after
}

// AddResync queues the handler's calls for a page of a resync. The caller holds the informer's deltasMu, so that no
// change is distributed meanwhile.
func (l *Listener) AddResync(p *Page) {
	defer l.poke() // an empty page must wake the goroutine too
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.resync
	if !r.active { // the listener was stopped
		return
	}
	for n, key := range p.Keys {
		if _, changed := r.changed[key]; !changed {
			l.pending.put(Call{Type: cache.Updated, Key: key, Old: p.Objects[n], New: p.Objects[n], resync: true})
		}
	}
	r.reading, r.changed, r.after, r.through = false, nil, p.To, l.pending.tail
	if p.To == "" {
		r.end()
	}
}

// end ends the resync, and starts the next one if it is due.
func (r *resyncing) end() {
	*r = resyncing{paging: paging{active: r.again}, through: r.through}
}

// EndResync ends a resync whose next page cannot be read.
func (l *Listener) EndResync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resync.end()
}
