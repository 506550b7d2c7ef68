// Package boltfile keeps one bbolt file open under its name. It creates, locks and verifies the file, runs transactions
// on it, exchanges it for a copy, and moves it aside if it is damaged. It knows no collections: of the content it reads
// and writes only what describes the file (root.go: format, clean close, clocks).
//
// A File is what the rest of the store uses: New, then Open or OpenExisting, which block. View and Update run
// transactions. There is one writer at a time, in the order in which TakeWriter is called; every wait for the writer's
// place ends with its context, and names the holder. A commit that fails is either ErrNoSpace, and nothing was written,
// or ErrOutcomeUnknown. After that, and after damage, the File has failed (Err, Failed): it is read, and not written,
// until an Exchange. Before each write KeepName verifies that the open file still has its name.
// Each transaction verifies that the file is still the one that was opened (Handle.verifyIdentity): one that was copied
// over is neither read nor written any more (ErrOverwritten). Go runs background work
// that belongs to the File. To close it, call CloseBackground, take the writer's place and call Close.
//
// Locks are taken in this order: the writer's place, the right to exchange (BeginExchange, PauseExchanges), the lock of
// the current handle, under which nothing is called but Exchange.InUse.
//
// A Handle is one open file. Its View and Update run transactions with faults contained: a page that is malformed or
// cannot be read causes an error that wraps entry.ErrDamaged (FaultError), not a panic. A failed commit is a
// commitError. Scan reads a bucket in order, and fails if keys are out of order. Memory from bbolt is valid until its
// transaction ends.
//
// A file is made under a temporary name and gets its own name when it is synced. To open a file, a File takes its Mark,
// which counts the processes that died while they opened it, and then the lock on the file (openLocked, opening).
package boltfile
