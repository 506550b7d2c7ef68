package delivery

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Page is a page of the stored objects in key order. It is immutable.
type Page struct {
	// The page has the keys greater than After and at most To. To is "" for the last page, which has no limit.
	After, To string
	Keys      []string
	Objects   []runtime.Object // Objects has the object of each key in Keys
	// Lost lists the objects that could not be read. Their keys are not in Keys.
	Lost []Unreadable
}

func (p *Page) covers(key string) bool { return key > p.After && (p.To == "" || key <= p.To) }

// with returns a copy of p that has obj under key, or no object if obj is nil.
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

type Unreadable struct {
	Key string
	Err error
}

// paging is the progress of reading the stored objects page by page in key order.
type paging struct {
	active  bool
	reading bool   // reading is true while the next page is being read
	after   string // after is the last key that the pages so far have covered
}

// claim reports whether the next page must be read now, and if so reserves the reading for the caller.
func (p *paging) claim(ready bool) bool {
	if !p.active || p.reading || !ready {
		return false
	}
	p.reading = true
	return true
}

// backlog delivers the stored objects to a handler, in their state at the time when the handler was added. They are
// delivered page by page, in key order, before any later change. The next page is read when the calls of the last page
// have been made. So a slow handler keeps a page and the later changes in memory, not the collection.
//
//	first key            after                last key
//	   │ already read        │ not read yet       │
//	   └─ changes are queued ┴── and the original ┘
//	                            state is kept
//
// The listener's mu guards it. The informer's deltasMu is also held when a page is added, so that no change is lost
// between the page and kept.
type backlog struct {
	paging
	// calls lists the calls of the last page that have not been taken for delivery.
	calls []Call
	// kept has the original state of each object that has changed since the handler was added and whose key no page has
	// covered yet; nil if the object did not exist when the handler was added.
	kept map[string]runtime.Object
	// page is the last page, kept for other handlers that need the same page.
	page *Page
	// relists is true if a list must be requested for stored objects that cannot be read.
	relists bool
}

// keep saves the state of an object before the change n, unless a page has covered its key already.
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

func (b *backlog) take() (n Call, ok bool) {
	if len(b.calls) == 0 {
		return n, false
	}
	n, b.calls[0] = b.calls[0], n // the array must not keep the object in memory
	b.calls = b.calls[1:]
	return n, true
}

// move queues the calls of p. Kept states replace the objects of p.
func (b *backlog) move(p *Page) {
	page := p
	for _, key := range slices.Sorted(maps.Keys(b.kept)) {
		if p.covers(key) {
			page = page.with(key, b.kept[key])
			delete(b.kept, key)
		}
	}
	for n, key := range page.Keys {
		b.calls = append(b.calls, Call{Type: cache.Added, Key: key, New: page.Objects[n], Initial: true, Firsts: 1})
	}
	b.reading, b.after, b.page = false, p.To, p
	if p.To == "" {
		b.active, b.page, b.kept = false, nil, nil
	}
}

// StartReplay starts the backlog of l: the stored objects are delivered first. If given is true, the caller must add
// the first page; otherwise the listener's goroutine reads it. No change may have been distributed to l before.
func (l *Listener) StartReplay(relists, given bool) {
	defer l.poke()
	l.tracker.Start() // tracker.Finished follows when the last page has been queued
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasStopped {
		l.backlog = backlog{paging: paging{active: true, reading: given}, relists: relists}
	}
}

func (l *Listener) claimPage() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.claim(len(l.backlog.calls) == 0)
}

func (l *Listener) PageAfter() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.after
}

// AddPage queues the handler's calls for a page of its backlog. The caller holds the informer's deltasMu.
func (l *Listener) AddPage(p *Page) {
	defer l.poke() // an empty page must wake the goroutine too
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.backlog.active { // the listener was stopped
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

func (l *Listener) NeedsList() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.relists
}
