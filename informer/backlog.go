package informer

import (
	"slices"

	"k8s.io/client-go/tools/cache"
)

// backlog is what a handler has yet to be told of the stored objects. It is told page by page, in key order: the next page is read when the
// calls of the last one have been made, so a slow handler holds a page and not the collection. Of a key that no page has come to
// no addition or update is told: the page will have the object as it is then. A delete is: OnAdd with what was stored, and OnDelete.
//
//	first key             after                 last key
//	   │ have been in a page │ are yet to be told  │
//	   └─ changes are told ──┴─ deletes are told ──┘
//
// The listener's mu guards it. It moves on with the informer's deltasMu held, too, so that no change falls between a page and
// what follows it.
type backlog struct {
	active bool
	after  string // what a page has come to
	// given are the calls of the last page that have not been taken for delivery. It is not 0 while a page is being read.
	given int
	// noted are the keys above after that have been written since the page that is being read was begun.
	noted map[string]bool
	// page is the last one, for other handlers that are as far; see pages.
	page *storedPage
	// mends: what can not be read is listed anew.
	mends bool
}

// holdsBack reports whether a page is yet to come to key, and notes that it has changed.
func (r *backlog) holdsBack(key string) bool {
	if !r.active || key <= r.after {
		return false
	}
	if r.noted != nil {
		r.noted[key] = true
	}
	return true
}

// startReplay makes the stored objects the first that l is told of, beginning with a page that the caller gives. Nothing has been
// distributed to l before.
func (l *listener) startReplay(mends bool) {
	l.tracker.Start() // until all of them have been told
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasStopped {
		l.backlog = backlog{active: true, given: 1, mends: mends}
	}
}

// claimPage reports whether it is time for the next page, which the caller then has to give.
func (l *listener) claimPage() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.backlog.active || l.backlog.given > 0 || l.hasStopped {
		return false
	}
	l.backlog.given = 1
	return true
}

// beginPage returns where the next page begins. What is written from now on is noted.
func (l *listener) beginPage() (after string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backlog.noted = map[string]bool{}
	return l.backlog.after
}

// noted returns the keys of the page whose states in it may be old, in order. The caller holds deltasMu.
func (l *listener) noted(p *storedPage) (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.backlog.noted {
		if p.covers(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// endPage queues the calls of a page. What is told from now on follows it. The caller holds deltasMu.
func (l *listener) endPage(p *storedPage, due *lines) {
	if !l.moveTo(p) {
		return
	}
	over := p.to == ""
	for n, key := range p.keys {
		l.add(notification{typ: cache.Added, key: key, new: p.objs[n], initial: true, paged: !over}, due)
	}
	if over {
		l.tracker.Finished()
	}
	l.poke() // a page may be empty
}

// moveTo makes p the last page; it is false if l has been stopped.
func (l *listener) moveTo(p *storedPage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.backlog
	if !r.active {
		return false
	}
	r.page, r.noted, r.after, r.given = p, nil, p.to, 0
	if p.to == "" {
		*r = backlog{mends: r.mends}
	}
	return true
}
