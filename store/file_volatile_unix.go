//go:build unix && !linux

package store

import (
	"errors"
	"os"
)

// volatileFile returns an empty file without a name, which is gone when it is closed. This system has none in memory; where the directory of
// temporary files is on a disk, pages of it may get there.
func volatileFile() (*os.File, error) {
	f, err := os.CreateTemp("", "larder-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
