package delivery

import (
	"k8s.io/client-go/tools/cache"
)

// resyncing is how far a handler has come in a resync. It goes through the stored objects in key order, a page at a
// time: the next page is read when the calls of the last one, and what was queued before them, have been taken for
// delivery. So a slow handler holds a page, and not the collection.
//
// An object that changes while its page is read is left out, since the change tells of it; what has been queued is
// followed by what changes later. So no call has an older state than one before it, and none comes after the object's
// delete.
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

// StartResync begins a resync. It reports whether the caller has to give the first page now; else run does, once the
// stored objects of the replay have been told, or the resync that is under way has ended.
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
	*r = resyncing{active: true, reading: give}
	return give
}

// claimResync reports whether it is time for the next page of a resync, which the caller then has to give.
func (l *Listener) claimResync() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.resync
	if !r.active || r.reading || l.backlog.active || l.pending.head < r.through {
		return false
	}
	r.reading = true
	return true
}

// ResyncAfter is where the next page begins.
func (l *Listener) ResyncAfter() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resync.after
}

// AddResync queues the calls of a page. The caller holds deltasMu, so that nothing is told meanwhile.
func (l *Listener) AddResync(p *Page) {
	defer l.poke() // a page may be empty
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.resync
	if !r.active { // it has been stopped
		return
	}
	for n, key := range p.Keys {
		if _, told := r.changed[key]; !told {
			l.pending.put(Call{Type: cache.Updated, Key: key, Old: p.Objects[n], New: p.Objects[n], resync: true})
		}
	}
	r.reading, r.changed, r.after, r.through = false, nil, p.To, l.pending.tail
	if p.To == "" {
		r.end()
	}
}

// end ends the resync, or begins the next if that is due.
func (r *resyncing) end() {
	*r = resyncing{active: r.again, through: r.through}
}

// EndResync ends a resync whose next page cannot be read.
func (l *Listener) EndResync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resync.end()
}
