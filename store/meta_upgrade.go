package store

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// upgrades has, under each older format that can be upgraded, the step to the
// next one. There is none yet: format 1 is the first. A step that loses
// something says so in the CHANGELOG.
func upgrades() map[uint64]func(*bolt.Tx) error {
	return map[uint64]func(*bolt.Tx) error{}
}

// checkFormat returns an error unless the file's format is ours or can be
// brought there.
func checkFormat(format uint64, readOnly bool, steps map[uint64]func(*bolt.Tx) error) error {
	switch {
	case format == formatVersion:
		return nil
	case format > formatVersion:
		return fmt.Errorf("%w: the file has format %d, this program reads up to %d; use the newer program, or another file",
			ErrNewerFormat, format, formatVersion)
	case readOnly:
		return fmt.Errorf("the file has the older format %d, not %d; open it for writing once, which upgrades it", format, formatVersion)
	}
	for at := format; at < formatVersion; at++ {
		if steps[at] == nil {
			return fmt.Errorf("the file has format %d, which this program can not upgrade to %d; use an older program, or another file",
				format, formatVersion)
		}
	}
	return nil
}

// upgrade brings the file from an older format to ours, in the caller's transaction.
func upgrade(tx *bolt.Tx, format uint64, steps map[uint64]func(*bolt.Tx) error) error {
	if format == formatVersion {
		return nil
	}
	for at := format; at < formatVersion; at++ {
		if err := steps[at](tx); err != nil {
			return fmt.Errorf("upgrade from format %d to %d: %w", at, at+1, err)
		}
	}
	return putFormat(tx, formatVersion)
}
