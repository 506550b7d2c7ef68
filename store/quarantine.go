package store

import (
	"fmt"
	"os"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// quarantine moves the store's file aside because of reason. The caller must hold the mark, so that
// no other process can have replaced the file.
func (s *Store) quarantine(reason error) error {
	name, err := boltfile.SetAside(s.real, os.Rename)
	if err != nil {
		return fmt.Errorf("it is damaged (%w) and cannot be moved aside: %w", reason, err)
	}
	s.mu.Lock()
	s.quarantined = name
	s.mu.Unlock()
	s.logger().Error(reason, "The store was damaged: it has been moved aside and is made anew", "movedTo", name)
	return nil
}
