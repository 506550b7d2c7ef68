package serve

import (
	"sync"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
)

// lengths caches the sizes of a collection's protobuf lists. In protobuf a list's size precedes its items, so a large
// list is read twice if its size is not cached. It is safe for concurrent use.
type lengths struct {
	mu    sync.Mutex
	known map[lengthKey]length
}

// lengthKey identifies a list by its objects' key prefix (a namespace, or "" for all) and by the form of its items.
type lengthKey struct {
	prefix string
	form   form
}

type length struct {
	at    history.Position
	rv    string
	bytes int
}

const maxLengths = 1000

// of returns the total size of a list's items in protobuf: the cached size, plus the changes since then. itemSize
// returns the size of one item. ok is false if no size is cached, or if the changes are no longer known.
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

func (s *lengths) forget(l *listing, f form) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, lengthKey{l.prefix(), f})
}

func (s *lengths) put(l *listing, f form, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxLengths {
		clear(s.known)
	}
	s.known[lengthKey{l.prefix(), f}] = length{l.at, l.rv, bytes}
}
