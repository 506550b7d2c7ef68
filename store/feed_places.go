package store

import (
	"errors"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

// Place is how far a durable handler has come in the change feed of a collection.
type Place struct {
	// Seq: every change up to it has been acknowledged, but those of Failing and, while Replaying, the objects after
	// After.
	Seq uint64
	// Failing are the keys of changes that have not been acknowledged although later ones have, with the number of the
	// first of them. It is shared: do not modify it.
	Failing map[string]uint64
	// Replaying: the handler is being told of every object, in key order, and has acknowledged those up to After. Seq
	// stays where it was when that began.
	Replaying bool
	After     string
	// Told: it has been told that it begins anew.
	Told bool
	// Why it begins anew, or did last.
	Why ResetReason
}

// ResetReason is why a durable handler is told of every object.
type ResetReason string

// The reasons.
const (
	// ResetNew: no handler of that name was registered.
	ResetNew ResetReason = "new"
	// ResetBehind: tombstones that it had not acknowledged have been dropped, since there were too many, or they were too
	// old.
	ResetBehind ResetReason = "behind"
	// ResetDamage: the file was damaged, and objects of the collection were lost.
	ResetDamage ResetReason = "damage"
)

// low is the number up to which the handler needs nothing of the feed any more.
func (p Place) low() uint64 {
	low := p.Seq
	for _, seq := range p.Failing {
		low = min(low, seq-1)
	}
	return low
}

// again returns the place of a handler that begins anew behind the last number that was given.
func again(nextSeq uint64, why ResetReason) Place {
	return Place{Seq: nextSeq - 1, Replaying: true, Why: why}
}

func putPlace(handlers *bolt.Bucket, collection, name string, p Place) error {
	data, err := format.AppendPlace(nil, collection, name, &format.Place{
		Seq: p.Seq, Failing: p.Failing, Replaying: p.Replaying, After: p.After, Told: p.Told, Why: string(p.Why),
	})
	if err != nil {
		return err
	}
	return handlers.Put([]byte(name), data)
}

func parsePlace(collection, name string, data []byte) (Place, error) {
	r, err := format.ParsePlace(collection, name, data)
	if err != nil {
		return Place{}, err
	}
	return Place{Seq: r.Seq, Failing: r.Failing, Replaying: r.Replaying, After: r.After, Told: r.Told,
		Why: ResetReason(r.Why)}, nil
}

// getPlaces returns the places of all handlers. With an error of damage, those that cannot be read begin anew.
func getPlaces(b *bolt.Bucket, collection string) (map[string]Place, error) {
	st, err := getState(b, collection)
	if err != nil {
		return nil, err
	}
	all := map[string]Place{}
	handlers := b.Bucket(format.BucketHandlers)
	if handlers == nil {
		return all, nil
	}
	var bad error
	err = handlers.ForEach(func(name, data []byte) error {
		place, err := parsePlace(collection, string(name), data)
		if err != nil {
			bad, place = errors.Join(bad, err), again(st.NextSeq, ResetDamage)
		}
		all[string(name)] = place
		return nil
	})
	return all, errors.Join(err, bad)
}

// places are those of the handlers of an open collection. What is acknowledged is noted here and written by the next
// commit.
type places struct {
	mu      sync.Mutex
	all     map[string]*placed // guarded by mu
	retain  time.Duration      // see Collection.RetainChanges; guarded by mu
	changed chan struct{}      // closed by the next write, and then nil; nil too if nobody waits; guarded by mu
	closed  bool               // the collection is: nothing is acknowledged any more; guarded by mu
}

// placed is one handler.
type placed struct {
	place Place
	// resets is how often it was set back in this process.
	resets int
	open   bool
	// version grows with each change of place; the file has that of written.
	version, written uint64
}

// placesSnapshot is what one transaction finds.
type placesSnapshot struct {
	places map[string]Place
	// versions are those of the places that the file does not have.
	versions map[string]uint64
	// reset are those that the transaction has set back.
	reset map[string]Place
	// retain is how long changes are retained for readers.
	retain time.Duration
}

func (p *places) load(all map[string]Place, retain time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all, p.retain = map[string]*placed{}, retain
	for name, place := range all {
		p.all[name] = &placed{place: place}
	}
}

// any reports whether something consumes the change feed.
func (p *places) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all) > 0 || p.retain > 0
}

// snapshot returns the places, or nil if nothing consumes the change feed.
func (p *places) snapshot() *placesSnapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 && p.retain == 0 {
		return nil
	}
	s := &placesSnapshot{retain: p.retain, places: map[string]Place{}, versions: map[string]uint64{},
		reset: map[string]Place{}}
	for name, h := range p.all {
		s.places[name] = h.place
		if h.version != h.written {
			s.versions[name] = h.version
		}
	}
	return s
}

// dirty reports whether the file lacks something.
func (p *places) dirty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.all {
		if h.version != h.written {
			return true
		}
	}
	return false
}

// committed notes what the file has now.
func (p *places) committed(s *placesSnapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeLocked()
	if s == nil {
		return
	}
	for name, version := range s.versions {
		if h := p.all[name]; h != nil {
			h.written = max(h.written, version)
		}
	}
	p.setBackLocked(s)
}

// unsure notes a write that the file may have or not: handlers whose tombstones it may have dropped begin anew.
func (p *places) unsure(s *placesSnapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s != nil && len(s.reset) > 0 {
		p.setBackLocked(s)
		p.wakeLocked()
	}
}

func (p *places) setBackLocked(s *placesSnapshot) {
	for name, place := range s.reset {
		if h := p.all[name]; h != nil {
			h.setBack(place)
		}
	}
}

// wakeLocked tells those who wait for a change.
func (p *places) wakeLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// close ends all acknowledging: what came before is in the last commit.
func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wakeLocked()
}

// setBack makes the handler begin anew, whatever it has acknowledged meanwhile.
func (h *placed) setBack(place Place) {
	h.place = place
	h.resets++
	h.version++
}

// setAllBack is setBack for every handler, after objects were lost.
func (p *places) setAllBack(nextSeq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.all {
		h.setBack(again(nextSeq, ResetDamage))
	}
	p.wakeLocked()
}

// Errors of handlers' places.
var (
	// ErrHandlerOpen: a durable handler of that name is registered in this process.
	ErrHandlerOpen = errors.New("a durable handler of that name is registered")
	// ErrNoHandler: no durable handler of that name has ever been registered, or it was forgotten.
	ErrNoHandler = errors.New("no durable handler of that name")
	// ErrReset: the handler has been set back since; ask for its place.
	ErrReset = errors.New("the durable handler begins anew")
)

func (p *places) acknowledge(name string, resets int, place Place) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.all[name]
	switch {
	case p.closed:
		return ErrClosed
	case h == nil:
		return ErrNoHandler
	case h.resets != resets:
		return ErrReset
	}
	h.place = place
	h.version++
	return nil
}

func (p *places) get(name string) (place Place, resets int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.all[name]
	if h == nil {
		return Place{}, 0, ErrNoHandler
	}
	return h.place, h.resets, nil
}
