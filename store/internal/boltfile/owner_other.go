//go:build !unix

package boltfile

import "os"

// KeepOwner does nothing: files have no owners and modes here that a file could be given.
func KeepOwner(_, _ *os.File) error { return nil }
