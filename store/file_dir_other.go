//go:build !unix

package store

import "os"

// renamesOpen: a file can be renamed while it is open.
const renamesOpen = false

// nameless reports whether an open file has been removed, which is not possible here.
func nameless(*os.File) bool { return false }

// syncDir does nothing: a directory cannot be synced here.
func syncDir(string) error { return nil }
