// Package wholefile writes files that are there as a whole or not at all.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// suffix follows the name in those of unfinished files; random characters follow it.
const suffix = ".new-"

// abandoned is the age from which an unfinished file is of a process that was killed.
const abandoned = 24 * time.Hour

// Write makes the file at path, or replaces it, with what write writes, once that is on the disk. Its mode is 0600.
// Unfinished files in its directory, which killed processes have left a day ago, are removed.
func Write(path string, write func(*os.File) error) error {
	dir := filepath.Dir(path)
	removeAbandoned(dir)
	f, err := os.CreateTemp(dir, filepath.Base(path)+suffix+"*")
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		if remove := os.Remove(f.Name()); !errors.Is(remove, fs.ErrNotExist) {
			err = errors.Join(err, remove)
		}
		return err
	}
	return SyncDir(dir)
}

func removeAbandoned(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // which the caller notices
	}
	for _, e := range entries {
		if !strings.Contains(e.Name(), suffix) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next one tries again
		}
	}
}

// SyncDir syncs a directory, so that the names in it survive a power loss. It does nothing where that is not possible.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // the file system does not support it
	}
	return errors.Join(err, d.Close())
}
