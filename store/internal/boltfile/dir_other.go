//go:build !unix

package boltfile

import "os"

// RenamesOpen reports whether a file can be renamed while it is open.
const RenamesOpen = false

// nameless reports whether an open file has been removed, which is not possible here.
func nameless(*os.File) bool { return false }

// SyncDir does nothing: a directory cannot be synced here.
func SyncDir(string) error { return nil }
