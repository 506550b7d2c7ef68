// Package index implements the secondary indexes of a collection: the index functions, the terms that they return for
// an object, and the entries in the file that answer look-ups.
//
// A Set holds the index functions of a collection and their versions. It knows which indexes are ready, that is, have
// complete entries in the file. Set.Terms calls the functions for an object. Its result, the object's values by index
// name, is stored in the header of the object's record. Set.Claim compares the functions with the stored states of the
// indexes.
//
// In the file, an index is a bucket with one entry for each value of each object (format.IndexEntry). When a record
// changes, Entries.Move changes the entries in the same transaction, from the terms of the old record to those in the
// new record. A Reader answers look-ups: each opens a View, which combines the entries with the writes in the memtable.
// In a sealed collection, values are stored as tokens; see Sealing.
//
// Build makes the entries of indexes that are not ready. It reads the records of a collection (Records) and writes a
// page of them per transaction. At the start of a process a Builder does so, and look-ups wait on its Changed. An index
// that a process has not used is marked (Entries.Idle), and dropped if the next process does not use it either.
//
// The package starts no goroutine. It calls index functions under no lock and in no transaction. A panic of a function
// becomes an error. The methods of a Builder are safe for concurrent use; a View is valid in its transaction.
package index
