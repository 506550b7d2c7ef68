package boltfile

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

// SetAside gives the file at path a name that says that it is damaged, with
// move, and removes all but the newest, by their names, of those before it.
func SetAside(path string, move func(from, to string) error) (string, error) {
	stamp := path + format.SuffixDamaged + time.Now().UTC().Format("20060102T150405.000000000Z")
	name := stamp
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); IsMissing(err) {
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
	return name, SyncDir(filepath.Dir(path))
}
