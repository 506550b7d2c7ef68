package boltfile

import (
	"errors"
	"strings"

	berrors "go.etcd.io/bbolt/errors"
)

// IsNoSpace reports whether err says that there is no room for more: on the
// disk, in the quota, under the limit of a file's size or Options.MaxSize.
func IsNoSpace(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, ErrNoSpace) || errors.Is(err, berrors.ErrMaxSizeReached) {
		return true
	}
	for _, errno := range noSpaceErrors() {
		// bbolt keeps no more than the text of an error of growing the file.
		if errors.Is(err, errno) || strings.HasSuffix(err.Error(), ": "+errno.Error()) {
			return true
		}
	}
	return false
}
