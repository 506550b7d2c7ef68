// Package boltfile handles one bbolt file: it creates, locks, verifies and opens the file, runs transactions on it, and
// moves it aside if it is damaged. It knows no collections: the caller interprets the content (Opening.Accept).
//
// A file is made under a temporary name and gets its own name when it is synced (New, Create). To open a file, take its
// Mark, which counts the processes that died while they opened it, and then the lock on the file (OpenLocked, Opening).
// A Handle is the open file. Its View and Update run transactions with faults contained: a page that makes no sense or
// cannot be read causes an error that wraps entry.ErrDamaged (FaultError), not a panic. A failed commit is a
// CommitError. Scan reads a bucket in order, and fails if keys are out of order. Memory from bbolt is valid until its
// transaction ends.
//
// A Handle may be used by any number of goroutines; the caller ensures that only one writes at a time. This package
// starts no goroutines. Waits for a lock end with their context or deadline.
package boltfile
