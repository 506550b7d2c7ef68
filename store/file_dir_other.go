//go:build !unix

package store

// renamesOpen: a file can be renamed while it is open.
const renamesOpen = false

// syncDir does nothing: a directory can not be synced here.
func syncDir(string) error { return nil }
