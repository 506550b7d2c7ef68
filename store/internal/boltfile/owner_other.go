//go:build !unix

package boltfile

import "os"

// KeepOwner does nothing, because files on these systems have no owner or mode to copy.
func KeepOwner(_, _ *os.File) error { return nil }
