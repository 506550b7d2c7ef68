package informer

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// backlog is what a handler has yet to be told of the stored objects, as they were when it joined. It is told page by page, in key order, before anything
// that has changed since: the next page is read when the calls of the last one have been made, so a slow handler holds a page and
// what changes meanwhile, and not the collection.
//
//	first key            after                last key
//	   │ have been in a page │ are yet to come    │
//	   └─ changes are queued ┴─ and the first old ─┘
//	                            state is kept
//
// The listener's mu guards it. It moves on with the informer's deltasMu held, too, so that no change falls between a page and
// what is kept.
type backlog struct {
	active bool
	after  string // what a page has come to
	// reading: somebody reads the next page.
	reading bool
	// calls are those of the last page that have not been taken for delivery.
	calls []notification
	// kept are the states of objects above after that have been written since: nil is of one that was not there.
	kept map[string]runtime.Object
	// page is the last one, for other handlers that are as far; see pages.
	page *storedPage
	// mends: what can not be read is listed anew.
	mends bool
}

// keep keeps the state that n ends, if a page is yet to come to it.
func (b *backlog) keep(n *notification) {
	if !b.active || n.key <= b.after {
		return
	}
	if _, ok := b.kept[n.key]; ok {
		return
	}
	if b.kept == nil {
		b.kept = map[string]runtime.Object{}
	}
	b.kept[n.key] = n.before
}

// take removes the first call of the page; it is false if there is none.
func (b *backlog) take() (n notification, ok bool) {
	if len(b.calls) == 0 {
		return n, false
	}
	n, b.calls[0] = b.calls[0], n // the array must not keep the object
	b.calls = b.calls[1:]
	return n, true
}

// move makes the calls of p, with what was kept in the place of what it has.
func (b *backlog) move(p *storedPage) {
	told := p
	for _, key := range slices.Sorted(maps.Keys(b.kept)) {
		if p.covers(key) {
			told = told.with(key, b.kept[key])
			delete(b.kept, key)
		}
	}
	for n, key := range told.keys {
		b.calls = append(b.calls, notification{typ: cache.Added, key: key, new: told.objs[n], initial: true, firsts: 1})
	}
	b.reading, b.after, b.page = false, p.to, p
	if p.to == "" {
		b.active, b.page, b.kept = false, nil, nil
	}
}

// startReplay makes the stored objects the first that l is told of, beginning with a page that the caller gives. Nothing has been
// distributed to l before.
func (l *listener) startReplay(mends bool) {
	l.tracker.Start() // until all of them have been queued
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasStopped {
		l.backlog = backlog{active: true, reading: true, mends: mends}
	}
}

// claimPage reports whether it is time for the next page, which the caller then has to give.
func (l *listener) claimPage() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.backlog
	if !b.active || b.reading || len(b.calls) > 0 {
		return false
	}
	b.reading = true
	return true
}

// pageAfter is where the next page begins.
func (l *listener) pageAfter() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.after
}

// addPage queues the calls of a page. The caller holds deltasMu.
func (l *listener) addPage(p *storedPage) {
	defer l.poke() // a page may be empty
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.backlog.active { // it has been stopped
		return
	}
	l.backlog.move(p)
	for range l.backlog.calls {
		l.tracker.Start()
	}
	if !l.backlog.active {
		l.tracker.Finished()
	}
}
