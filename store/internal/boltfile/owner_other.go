//go:build !unix

package boltfile

import "os"

// KeepOwner does nothing: files have no owner or mode to copy here.
func KeepOwner(_, _ *os.File) error { return nil }
