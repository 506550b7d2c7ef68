//go:build unix

package boltfile

import (
	"errors"
	"os"
	"syscall"
)

// RenamesOpen reports whether a file can be renamed while it is open.
const RenamesOpen = true

// nameless reports whether an open file has been removed: its number of hard links is 0.
func nameless(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// SyncDir makes the file names in the directory durable. It returns nil if the file system does not support that.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
