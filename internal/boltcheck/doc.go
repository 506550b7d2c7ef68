// Package boltcheck looks for damage in a bbolt file without mapping it.
//
// bbolt maps its file and trusts what it finds: its pages have no checksums, a
// file that was cut short kills the process, and a page that points to one
// of its ancestors overflows the stack. This package reads with ReadAt and
// trusts nothing, so that a file can be judged before bbolt sees it.
//
// Begin with Open, which costs the same whatever the file's size: it finds the
// newest valid meta page and looks at what that points to. Walk then follows
// every page, or the branch pages only. Both tell damage (an error that wraps ErrDamaged, or a list of problems)
// from a file that could not be read (any other error).
//
// The layout is that of bbolt 1.3 to 1.5, file version 2, in the byte order of
// the machine. To walk a file that is being written, hold a read transaction
// of bbolt and use OpenTx: its pages stay as they are until it ends.
package boltcheck
