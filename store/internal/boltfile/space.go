package boltfile

import (
	"errors"
	"strings"

	berrors "go.etcd.io/bbolt/errors"
)

// isNoSpace reports whether err means that no space is left: on the disk, in the quota, or below a file size limit of
// the system or of Options.MaxSize.
func isNoSpace(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, ErrNoSpace) || errors.Is(err, berrors.ErrMaxSizeReached) {
		return true
	}
	for _, errno := range noSpaceErrors() {
		// bbolt keeps only the text of the system's error when it fails to grow the file.
		if errors.Is(err, errno) || strings.HasSuffix(err.Error(), ": "+errno.Error()) {
			return true
		}
	}
	return false
}
