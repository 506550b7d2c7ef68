package boltfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-dev/larder/store/internal/format"
)

// keepDamaged bounds the number of damaged files beside the store, so that a bad disk does not fill up.
const keepDamaged = 2

// setAside renames the damaged file at path with move, and returns the new name, <path>.damaged-<UTC>. It removes the
// oldest of the other damaged files by name, and leaves keepDamaged files.
func setAside(path string, move func(from, to string) error) (string, error) {
	stamp := path + format.SuffixDamaged + time.Now().UTC().Format("20060102T150405.000000000Z")
	name := stamp
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); isMissing(err) {
			break
		} else if err != nil {
			return "", err
		}
		name = fmt.Sprintf("%s-%d", stamp, n)
	}
	if err := move(path, name); err != nil {
		return "", err
	}
	// The new file stays even if other damaged files have later times in their names: the clock may have been set back.
	old := slices.DeleteFunc(beside(path, format.SuffixDamaged), func(other string) bool { return other == name })
	for _, extra := range old[:max(len(old)-(keepDamaged-1), 0)] {
		_ = os.Remove(extra)
	}
	return name, syncReadable(filepath.Dir(path))
}
