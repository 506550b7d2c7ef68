// Package index has the secondary indexes of a collection: their functions, what the functions say of an object, and
// the entries in the file that answer look-ups.
//
// A Set holds the index functions of a collection, with their versions, and knows which indexes are ready: those whose
// entries in the file are complete. Set.Terms calls the functions for an object; its result, the values of the object
// by index name, is stored in the header of the object's record. Set.Claim compares the functions with what the file
// says of its indexes.
//
// In the file an index is a bucket with one entry for each value of each object (format.IndexEntry). Entries.Move
// changes them in the transaction that changes the record, by the terms of the old record and the new one. A Reader
// answers look-ups: in each it opens a View, which lays the writes of the memtable over the entries. In a sealed
// collection values are stored as tokens; see Sealing.
//
// Build makes the entries of indexes that are not ready from the records of a collection (Records), a page in a
// transaction. At a start a Builder does so, and look-ups wait on its Changed. An index that a process has not used is
// marked (Entries.Idle), and dropped if the next process does not use it either.
//
// The package starts no goroutine. It calls index functions under no lock and in no transaction, and a function that
// fails or panics is an error. The methods of a Builder may be called by any number of goroutines; a View is valid in
// its transaction.
package index
