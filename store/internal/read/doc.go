// Package read reads one collection. It combines a transaction of the file with the memtable, so that a read sees the
// state after some batch. A Reader gets, lists, selects and pages through objects. If the objects are in memory
// (internal/resident), the caller reads them there.
//
// No transaction is open when a method returns, and while user code runs. Damage causes an error that wraps
// entry.ErrDamaged; objects are never missing silently.
package read
