package delivery

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Page is stored objects in key order. It is not changed.
type Page struct {
	// After is the key that the page begins after, and To the last one that it covers; empty if there are none after it.
	After, To string
	Keys      []string
	Objects   []runtime.Object // of Keys
	// Lost are those that could not be read, and are left out.
	Lost []Unreadable
}

func (p *Page) covers(key string) bool { return key > p.After && (p.To == "" || key <= p.To) }

// with returns a page that has obj under key, or nothing if obj is nil.
func (p *Page) with(key string, obj runtime.Object) *Page {
	next := *p
	next.Keys, next.Objects = slices.Clone(p.Keys), slices.Clone(p.Objects)
	at, found := slices.BinarySearch(next.Keys, key)
	if found {
		next.Keys, next.Objects = slices.Delete(next.Keys, at, at+1), slices.Delete(next.Objects, at, at+1)
	}
	if obj != nil {
		next.Keys, next.Objects = slices.Insert(next.Keys, at, key), slices.Insert(next.Objects, at, obj)
	}
	return &next
}

// Unreadable is a stored object that cannot be read.
type Unreadable struct {
	Key string
	Err error
}

// backlog is what a handler has yet to be told of the stored objects, as they were when it joined. It is told page by
// page, in key order, before anything that has changed since: the next page is read when the calls of the last one
// have been made, so a slow handler holds a page and what changes meanwhile, and not the collection.
//
//	first key            after                last key
//	   │ have been in a page │ are yet to come    │
//	   └─ changes are queued ┴─ and the first old ─┘
//	                            state is kept
//
// The listener's mu guards it. It moves on with the informer's deltasMu held, too, so that no change falls between a
// page and what is kept.
type backlog struct {
	active bool
	after  string // what a page has come to
	// reading: somebody reads the next page.
	reading bool
	// calls are those of the last page that have not been taken for delivery.
	calls []Call
	// kept are the states of objects above after that have been written since: nil is of one that was not there.
	kept map[string]runtime.Object
	// page is the last one, for other handlers that are as far; see pages.
	page *Page
	// mends: what cannot be read is listed anew.
	mends bool
}

// keep keeps the state that n ends, if a page is yet to come to it.
func (b *backlog) keep(n *Call) {
	if !b.active || n.Key <= b.after {
		return
	}
	if _, ok := b.kept[n.Key]; ok {
		return
	}
	if b.kept == nil {
		b.kept = map[string]runtime.Object{}
	}
	b.kept[n.Key] = n.Before
}

// take removes the first call of the page; it is false if there is none.
func (b *backlog) take() (n Call, ok bool) {
	if len(b.calls) == 0 {
		return n, false
	}
	n, b.calls[0] = b.calls[0], n // the array must not keep the object
	b.calls = b.calls[1:]
	return n, true
}

// move makes the calls of p, with what was kept in the place of what it has.
func (b *backlog) move(p *Page) {
	told := p
	for _, key := range slices.Sorted(maps.Keys(b.kept)) {
		if p.covers(key) {
			told = told.with(key, b.kept[key])
			delete(b.kept, key)
		}
	}
	for n, key := range told.Keys {
		b.calls = append(b.calls, Call{Type: cache.Added, Key: key, New: told.Objects[n], Initial: true, Firsts: 1})
	}
	b.reading, b.after, b.page = false, p.To, p
	if p.To == "" {
		b.active, b.page, b.kept = false, nil, nil
	}
}

// StartReplay makes the stored objects the first that l is told of, beginning with a page that the caller gives.
// Nothing has been distributed to l before.
func (l *Listener) StartReplay(mends bool) {
	l.tracker.Start() // until all of them have been queued
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasStopped {
		l.backlog = backlog{active: true, reading: true, mends: mends}
	}
}

// claimPage reports whether it is time for the next page, which the caller then has to give.
func (l *Listener) claimPage() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &l.backlog
	if !b.active || b.reading || len(b.calls) > 0 {
		return false
	}
	b.reading = true
	return true
}

// PageAfter is where the next page begins.
func (l *Listener) PageAfter() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.after
}

// AddPage queues the calls of a page. The caller holds deltasMu.
func (l *Listener) AddPage(p *Page) {
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

// Mends reports whether what cannot be read of the stored objects is to be listed anew.
func (l *Listener) Mends() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.mends
}
