//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

// renamesOpen: a file can be renamed while it is open.
const renamesOpen = true

// syncDir makes the names in the directory durable. File systems that can not
// do it have no use for it.
func syncDir(dir string) error {
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
