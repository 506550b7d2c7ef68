package serve

import (
	"sync"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
)

// lengths caches the sizes of a collection's protobuf lists. In protobuf a list's size precedes its items, so a large
// list of unknown size must be read twice. It is safe for concurrent use.
type lengths struct {
	mu    sync.Mutex
	known map[lengthKey]length
}

// lengthKey identifies a list of all objects whose keys have a prefix: a namespace, or none.
type lengthKey struct {
	prefix string
	form   form
}

// length is the size of a list's items, in bytes, at one moment.
type length struct {
	at    history.Position
	rv    string
	bytes int
}

// maxLengths bounds the number of cached sizes.
const maxLengths = 1000

// of returns the size of a listing: the cached size, updated with the changes since then. itemSize returns the size of
// one item. ok is false if the size is unknown.
func (s *lengths) of(l *listing, f form, itemSize func(entry.Entry) int) (bytes int, ok bool) {
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
	grown, err := h.Grown(known.at, l.at, l.prefix(), itemSize)
	if err != nil {
		return 0, false
	}
	s.put(l, f, known.bytes+grown)
	return known.bytes + grown, true
}

// forget drops the cached size of a listing.
func (s *lengths) forget(l *listing, f form) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, lengthKey{l.prefix(), f})
}

// put caches the size of a listing.
func (s *lengths) put(l *listing, f form, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxLengths {
		clear(s.known)
	}
	s.known[lengthKey{l.prefix(), f}] = length{l.at, l.rv, bytes}
}
