package store

import (
	"errors"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

// Place is the cursor of a durable handler in the changelog of a collection.
type Place struct {
	// Seq is the number up to which every change has been acknowledged, except those of Failing and, while Replaying, the
	// objects after After.
	Seq uint64
	// Failing holds the keys that have changes up to Seq that are not acknowledged, with the number of the first such
	// change. It is shared: do not modify it.
	Failing map[string]uint64
	// Replaying says that the handler receives every object, in key order, and has acknowledged the objects up to After.
	// Seq does not move meanwhile.
	Replaying bool
	After     string
	// Told says that the handler has been told that it begins anew.
	Told bool
	// Why is the reason why the handler last began anew.
	Why ResetReason
}

// ResetReason is the reason why a durable handler receives every object.
type ResetReason string

// The reasons.
const (
	// ResetNew says that no handler of that name was registered.
	ResetNew ResetReason = "new"
	// ResetBehind says that tombstones which the handler had not acknowledged were dropped, because there were too many
	// or they were too old.
	ResetBehind ResetReason = "behind"
	// ResetDamage says that the file was damaged, and objects or changes of the collection may have been lost.
	ResetDamage ResetReason = "damage"
)

// low returns the number up to which the handler no longer needs the changelog.
func (p Place) low() uint64 {
	low := p.Seq
	for _, seq := range p.Failing {
		low = min(low, seq-1)
	}
	return low
}

// again returns the cursor of a handler that begins anew: it receives every object, then the changes from nextSeq on.
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

// getPlaces returns the cursors of all handlers. If some are damaged it returns an error too, and cursors with which
// these handlers begin anew.
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

// places holds the cursors of the durable handlers of an open collection. Acknowledge changes them here; the next
// commit writes them to the file.
type places struct {
	mu      sync.Mutex
	all     map[string]*placed // handlers by name; guarded by mu
	retain  time.Duration      // see Collection.RetainChanges; guarded by mu
	changed chan struct{}      // closed by the next change, and then nil; nil also if it has no waiter; guarded by mu
	closed  bool               // whether the collection is closed and acknowledgements are refused; guarded by mu
}

// placed is the state of one handler. It is guarded by places.mu.
type placed struct {
	place Place
	// resets is how often the handler was made to begin anew in this process.
	resets int
	open   bool // whether a Feed has the handler
	// version grows with each change of place. written is the version that the file has.
	version, written uint64
}

// placesSnapshot is a copy of the cursors that one transaction uses.
type placesSnapshot struct {
	places map[string]Place
	// versions holds the versions of the cursors that the file lacks.
	versions map[string]uint64
	// reset holds the cursors of the handlers that the transaction makes begin anew.
	reset map[string]Place
	// retain is how long changes are kept for readers.
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

// any reports whether the changelog has a consumer: a durable handler, or readers.
func (p *places) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all) > 0 || p.retain > 0
}

// snapshot returns a copy of the cursors, or nil if the changelog has no consumer.
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

// dirty reports whether the file lacks the current cursor of a handler.
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

// committed records that the transaction of s has committed: s.versions are in the file, and the handlers in s.reset
// begin anew. It wakes those who wait for a change.
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

// unsure records that the outcome of the transaction of s is unknown. The handlers in s.reset begin anew, because the
// transaction may have dropped tombstones that they need.
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

// wakeLocked wakes those who wait for a change.
func (p *places) wakeLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// close makes acknowledge fail. The last commit writes the acknowledgements that came before.
func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wakeLocked()
}

// setBack makes the handler begin anew at place, even if it has acknowledged changes since place was made.
func (h *placed) setBack(place Place) {
	h.place = place
	h.resets++
	h.version++
}

// setAllBack makes every handler begin anew, after objects were lost.
func (p *places) setAllBack(nextSeq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.all {
		h.setBack(again(nextSeq, ResetDamage))
	}
	p.wakeLocked()
}

// Errors of durable handlers.
var (
	// ErrHandlerOpen says that a durable handler of that name is registered in this process.
	ErrHandlerOpen = errors.New("a durable handler of that name is registered")
	// ErrNoHandler says that no durable handler of that name has ever been registered, or that it was forgotten.
	ErrNoHandler = errors.New("no durable handler of that name")
	// ErrReset says that the handler was made to begin anew after Feed.Place was called: call it again.
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
