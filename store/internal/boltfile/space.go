package boltfile

import (
	"errors"
	"strings"

	berrors "go.etcd.io/bbolt/errors"
)

// isNoSpace reports whether err says that there is no space left: on the disk, in the quota, or below a limit of the
// file's size, the system's or Options.MaxSize.
func isNoSpace(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, ErrNoSpace) || errors.Is(err, berrors.ErrMaxSizeReached) {
		return true
	}
	for _, errno := range noSpaceErrors() {
		// bbolt keeps only the text of an error that it gets when it grows the file.
		if errors.Is(err, errno) || strings.HasSuffix(err.Error(), ": "+errno.Error()) {
			return true
		}
	}
	return false
}
