// Package boltcheck finds damage in a bbolt file without mapping it.
//
// bbolt maps its file and trusts the contents: its pages have no checksums, a truncated file kills the process, and a
// page that points to an ancestor overflows the stack. This package reads with ReadAt and verifies all values, so that
// a file can be checked before bbolt opens it.
//
// Start with Open, whose cost does not depend on the file's size: it finds the newest valid meta page and checks the
// root and freelist pages. Walk then checks all pages, or only the branch pages. Open and Walk distinguish damage (an
// error that wraps ErrDamaged, or a list of problems) from a file that could not be read (any other error).
//
// The package reads the layout of bbolt 1.3 to 1.5, file version 2, in the machine's byte order. To walk a file during
// writes, hold a bbolt read transaction and use OpenTx: the pages of that transaction do not change until it ends.
package boltcheck
