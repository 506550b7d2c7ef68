package delivery

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// mergeThreshold is the number of a handler's pending notifications from which on updates of one key merge.
const mergeThreshold = 1024

// initialPending is the capacity of a new queue. Like mergeThreshold it is a power of two.
const initialPending = 16

// pending is the queue of one handler. Below the threshold it keeps every notification. From the threshold on, an
// update merges into the last pending notification of its key, provided that this is an update too and was queued since
// the threshold was crossed. Additions and deletions never merge. So the queue holds at most threshold notifications,
// an addition and an update for each key that was not deleted, and three for each deletion: itself, and an addition and
// an update before it.
//
// Notifications are numbered in the order in which they were queued:
//
//	         head             crossed                tail
//	delivered │ unmerged       │ one update in a row   │ next
//	          └────────────────┴── of each key ────────┘
//
// It is not safe for concurrent use.
type pending struct {
	threshold int
	// ring holds notification n at n modulo its length, which is a power of two.
	ring       []Call
	head, tail uint64
	// crossed is the number of the first notification into which a later update can merge. Before it was queued, the
	// number of pending notifications was below the threshold.
	crossed uint64
	// latest has the number of a key's last notification, if that is an update and was queued at or above the
	// threshold. A number below crossed is no longer used, and is removed with its notification.
	latest map[string]uint64
	merged int
}

func newPending(threshold int) pending {
	return pending{threshold: threshold, ring: make([]Call, initialPending)}
}

func (q *pending) len() int { return int(q.tail - q.head) }

func (q *pending) at(number uint64) *Call { return &q.ring[number&uint64(len(q.ring)-1)] }

func (q *pending) put(n Call) {
	if q.len() >= q.threshold && q.absorb(&n) {
		q.merged++
		return
	}
	if q.len() == len(q.ring) {
		q.resize(2 * len(q.ring))
	}
	*q.at(q.tail) = n
	q.tail++
}

// absorb merges n into the last notification of its key and returns true, if possible. Otherwise it returns false, and
// notes in latest whether a later notification can merge into n.
func (q *pending) absorb(n *Call) bool {
	if n.Type != cache.Updated {
		delete(q.latest, n.Key)
		return false
	}
	if number, ok := q.latest[n.Key]; ok && number >= q.crossed {
		q.at(number).merge(n)
		return true
	}
	if q.latest == nil {
		q.latest = map[string]uint64{}
	}
	q.latest[n.Key] = q.tail
	n.latest = true
	return false
}

func (q *pending) take() (n Call, ok bool) {
	if q.len() == 0 {
		return n, false
	}
	n, *q.at(q.head) = *q.at(q.head), n // the ring must not keep the objects in memory
	if n.latest {
		q.forget(n.Key)
	}
	q.head++
	if q.len() == q.threshold-1 {
		q.crossed = q.tail
	}
	if len(q.ring) > mergeThreshold && q.len() <= len(q.ring)/4 {
		q.resize(len(q.ring) / 2)
	}
	return n, true
}

// forget removes the first notification's key from latest, unless latest has a later notification of the key.
func (q *pending) forget(key string) {
	if number, ok := q.latest[key]; ok && number == q.head {
		delete(q.latest, key)
	}
	if len(q.latest) == 0 {
		q.latest = nil // a new map later: an emptied map keeps its memory
	}
}

func (q *pending) resize(n int) {
	old := *q
	q.ring = make([]Call, n)
	for number := old.head; number != old.tail; number++ {
		*q.at(number) = *old.at(number)
	}
}

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

// Unreadable is a stored object that cannot be read.
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

// PageAfter returns the key after which the next page begins.
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

// NeedsList reports whether a list must be requested for stored objects that cannot be read.
func (l *Listener) NeedsList() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.relists
}

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

// ResyncAfter returns the key after which the next page begins.
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
