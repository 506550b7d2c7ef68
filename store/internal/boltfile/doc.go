// Package boltfile keeps one bbolt file open under its name. It creates, locks and verifies the file, runs transactions
// on it, exchanges it for a copy, and moves it aside if it is damaged. It does not know collections: it reads and
// writes only the content that describes the file itself (root.go: format, clean close, clocks).
//
// Call New, then Open or OpenExisting, which block. View and Update run transactions. There is one writer at a time, in
// the order of the calls of TakeWriter. Every wait for the writer lock ends with its context, and the error names the
// holder. A failed commit returns ErrNoSpace if nothing was written, and otherwise ErrOutcomeUnknown: then the next
// write first exchanges the file for a verified copy. After damage the File has failed (Err, Failed): it can be read,
// but not written until the next Open has copied the readable part.
//
// Before each write, KeepName verifies that the open file still has its name. Each transaction verifies that the file
// still has the content of the store (Handle.verifyIdentity). If another file was copied over it, the File fails all
// reads and writes with ErrOverwritten. Go runs background work that belongs to the File. To close a File, call
// CloseBackground, take the writer lock and call Close.
//
// The writer lock is taken before the mutex of the current handle. Under that mutex only Exchange.InUse is called.
//
// A Handle is one open file. Its View and Update run transactions with faults contained: a malformed or unreadable page
// causes an error that wraps entry.ErrDamaged (FaultError), not a panic. A failed commit is a commitError. Memory from
// bbolt is valid until its transaction ends.
//
// A new file is made under a temporary name, and renamed after it is synced. To open a file, a File first takes its
// Mark, which counts the processes that died while they opened the file, and then locks the file (openLocked, opening).
package boltfile
