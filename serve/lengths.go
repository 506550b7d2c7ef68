package serve

import (
	"sync"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
)

// lengths knows how long lists of a collection are in protobuf, which have their length before their items: a large one
// that is not known is read twice. It is safe for concurrent use.
type lengths struct {
	mu    sync.Mutex
	known map[lengthKey]length
}

// lengthKey is of a list of all objects whose keys have a prefix, which is a namespace's or none.
type lengthKey struct {
	prefix string
	form   form
}

// length is how long the items were at a moment.
type length struct {
	at    history.Position
	rv    string
	bytes int
}

// maxLengths bounds the lists that are known.
const maxLengths = 1000

// of returns the length of a listing, as it was last time and with what has changed since. weigh returns that of an
// item.
func (s *lengths) of(l *listing, f form, weigh func(entry.Entry) int) (bytes int, ok bool) {
	s.mu.Lock()
	known, ok := s.known[lengthKey{l.prefix(), f}]
	s.mu.Unlock()
	h := l.r.History()
	switch {
	case !ok:
		return 0, false
	case h == nil:
		return known.bytes, known.rv == l.rv
	}
	grown, err := h.Grown(known.at, l.at, l.prefix(), weigh)
	if err != nil {
		return 0, false
	}
	s.put(l, f, known.bytes+grown)
	return known.bytes + grown, true
}

// forget has the next list measured anew.
func (s *lengths) forget(l *listing, f form) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, lengthKey{l.prefix(), f})
}

// put notes the length of a listing.
func (s *lengths) put(l *listing, f form, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxLengths {
		clear(s.known)
	}
	s.known[lengthKey{l.prefix(), f}] = length{l.at, l.rv, bytes}
}
