//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package boltfile

import (
	"errors"
	"io/fs"
	"os"
)

// noFollow is not needed: a user who can make a symbolic link beside the store can also change the store.
const noFollow = 0

// tryLock does nothing and returns true: bbolt locks the file when it opens it.
func tryLock(*os.File, bool) (bool, error) { return true, nil }

func unlock(*os.File) error { return nil }

// lockMark opens the mark, the file <path>.opening; it returns nil if another process holds the mark. On these systems
// an open file cannot be renamed, and that serves as the lock. A mark that can be renamed was left by a crash; lockMark
// renames it back and opens it.
func lockMark(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	old := path + ".old"
	if err := os.Rename(path, old); err != nil {
		return nil, nil
	}
	if err := os.Rename(old, path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

func unlockMark(f *os.File, path string) error {
	return errors.Join(f.Close(), os.Remove(path))
}
