//go:build !unix

package boltfile

import "os"

// RenamesOpen reports whether a file can be renamed while it is open.
const RenamesOpen = false

// nameless returns false: an open file cannot be removed on these systems.
func nameless(*os.File) bool { return false }

// SyncDir does nothing, because these systems cannot sync a directory.
func SyncDir(string) error { return nil }
