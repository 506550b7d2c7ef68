package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-dev/larder/store/internal/format"
)

// keepDamaged is how many files that were moved aside are kept, so that a disk
// that damages them again and again is not filled with them.
const keepDamaged = 2

// quarantine moves the store's file aside because of reason. The caller holds the mark, so that no
// process has put another in its place.
func (s *Store) quarantine(reason error) error {
	name, err := setAside(s.real, os.Rename)
	if err != nil {
		return fmt.Errorf("it is damaged (%w) and cannot be moved aside: %w", reason, err)
	}
	s.mu.Lock()
	s.quarantined = name
	s.mu.Unlock()
	s.logger().Error(reason, "The store was damaged: it has been moved aside and is made anew", "movedTo", name)
	return nil
}

// setAside gives the file at path a name that says that it is damaged, with
// move, and removes all but the newest, by their names, of those before it.
func setAside(path string, move func(from, to string) error) (string, error) {
	stamp := path + format.SuffixDamaged + time.Now().UTC().Format("20060102T150405.000000000Z")
	name := stamp
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); isMissing(err) {
			break
		}
		name = fmt.Sprintf("%s-%d", stamp, n)
	}
	if err := move(path, name); err != nil {
		return "", err
	}
	// The new one stays whatever its name says: the clock may have been set back.
	old := slices.DeleteFunc(beside(path, format.SuffixDamaged), func(other string) bool { return other == name })
	slices.Sort(old)
	for _, extra := range old[:max(len(old)-(keepDamaged-1), 0)] {
		_ = os.Remove(extra)
	}
	return name, syncDir(filepath.Dir(path))
}
