// Package read reads one collection: the file in one transaction, with the memtable over it, which together are the
// state after some batch. A Reader gets, lists, selects and pages through objects; whoever knows that the objects are
// in memory (internal/resident) does not ask it.
//
// No transaction is open when a method returns, or while code of the user runs. Damage is an error that wraps
// entry.ErrDamaged, and never an object less.
package read
