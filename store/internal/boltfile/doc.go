// Package boltfile is one bbolt file: made, locked, verified, opened, read and written in transactions, moved aside. It
// knows no collections: what is in the file its caller reads (Opening.Accept).
//
// A file is made under a temporary name and gets its own when it is on the disk (New, Create). Whoever opens one holds
// its Mark, which counts the processes that died while they opened it, and then the lock on the file (OpenLocked,
// Opening). A Handle is the open file: transactions run by its View and Update with faults contained, so that a page
// that makes no sense, or cannot be read, is an error that wraps entry.ErrDamaged (FaultError) and no panic; a failed
// commit is a CommitError. Scan reads a bucket in order, and ends where its keys are out of order. What bbolt hands out
// dies with its transaction.
//
// A Handle may be used by any number of goroutines; one of them writes at a time, which the caller sees to. Nothing
// here starts a goroutine, and no wait but those for a lock, which end with their context or deadline, is unbounded.
package boltfile
