// Package memtable holds the uncommitted writes of a collection in key order, with their index terms. A memtable is
// small and cheap to clone.
//
// A read looks first in the memtable and then in the file. It captures a View, begins a transaction, and calls IsAt. If
// no commit has begun or ended in between, the View and the transaction together are one consistent state. A Write in a
// memtable does not change, except Compressed and Dict, which the commit sets.
package memtable
