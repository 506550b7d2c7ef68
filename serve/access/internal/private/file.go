// Package private writes files that only their owner may read, for keys and tokens. Start with [WriteFile].
package private

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/larder-dev/larder/internal/base"
)

// WriteFile creates or replaces a file atomically, with the mode 0600. It writes and syncs a temporary file in the same
// directory, renames it, and syncs the directory. A symbolic link at path is replaced, so callers resolve links first.
// If the file already has the data and only its owner may access the file, WriteFile writes nothing, and so succeeds on
// a full disk.
func WriteFile(path string, data []byte) error {
	if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, data) && Check(path) == nil {
		return nil
	}
	return write(path, data, os.Rename)
}

// CreateFile writes a new file as WriteFile does. It fails with an error that wraps fs.ErrExist if the file exists,
// even if another process creates it at the same moment.
func CreateFile(path string, data []byte) error {
	return write(path, data, os.Link)
}

// write writes data to a temporary file, which the function take then renames or links to the final name.
func write(path string, data []byte, take func(temporary, path string) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // CreateTemp uses the mode 0600
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
		err = base.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Dir creates a directory with the mode 0700, and its parents. It fails if other users may access the directory.
func Dir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Check(path)
}

// Check fails if users other than the owner may access the file or directory, or if another user may have placed it
// there. On Windows it does not check access, since a file's mode does not show its access list.
func Check(path string) error {
	if err := base.CheckOwner(path); err != nil {
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
