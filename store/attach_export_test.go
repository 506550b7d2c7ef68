package store

import (
	"context"
	"time"
)

// OpenInMemory opens a store in memory that does not look for its file by itself: Attach does.
func OpenInMemory(path string, o Options) (*Store, error) {
	s := newStore(path, o)
	if err := s.fetchKeys(context.Background()); err != nil {
		return nil, err
	}
	return s, s.openInMemory(context.Background(), locked(path))
}

// Attach has s take its file, whatever lists are being taken in.
func Attach(s *Store) error {
	s.detached.mu.Lock()
	s.detached.free = time.Now().Add(-2 * attachPatience)
	s.detached.mu.Unlock()
	return s.attach(context.Background())
}

// HasAnything reports whether Attach brings what is in memory into the file, rather than the other way round.
func HasAnything(c *Collection) bool {
	_, anything, _ := c.hasBegun(context.Background())
	return anything
}
