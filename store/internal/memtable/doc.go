// Package memtable holds the writes of a collection that are not committed to its file, in key order, with their index
// terms. It is small, and cheap to clone.
//
// A read takes the memtable first, then the file. It captures a View, begins a transaction, and asks IsAt whether a
// commit came in between: if not, the two are one state. Writes in a memtable do not change, but for Compressed and
// Dict, which the commit sets.
package memtable
