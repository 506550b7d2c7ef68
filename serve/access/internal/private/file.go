// Package private writes files that only their owner may read: keys and tokens. Start with [WriteFile].
package private

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/larder-dev/larder/internal/owner"
	"github.com/larder-dev/larder/internal/wholefile"
)

// WriteFile makes a file with the mode 0600, or replaces it: under a temporary name in the same directory, synced,
// renamed, and the directory synced. A reader sees the old file or the new one. A symbolic link is replaced; resolve it
// before. A file that has the data, and that only its owner may use, is left as it is: that needs no space.
func WriteFile(path string, data []byte) error {
	if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, data) && Check(path) == nil {
		return nil
	}
	return write(path, data, os.Rename)
}

// CreateFile is WriteFile for a file that must not be there yet: it fails with an error that wraps fs.ErrExist if there
// is one, also if another process makes it at the same moment.
func CreateFile(path string, data []byte) error {
	return write(path, data, os.Link)
}

// write puts data into a temporary file, which take gives its name.
func write(path string, data []byte, take func(temporary, path string) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // of the mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if remove := os.Remove(f.Name()); remove != nil && !errors.Is(remove, fs.ErrNotExist) && err == nil {
			err = remove
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = take(f.Name(), path)
	}
	if err == nil {
		err = wholefile.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Dir makes a directory with the mode 0700 if there is none, with its parents, and fails if others may enter it.
func Dir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Check(path)
}

// Check fails if others than the owner may do anything with the file or directory, or if another user may have placed
// it there (package owner). On Windows, whose access lists are not in a file's mode, it does not look.
func Check(path string) error {
	if err := owner.Check(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("%s has the mode %04o, so others than its owner may use it: chmod go= %s", path, mode, path)
	}
	return nil
}
