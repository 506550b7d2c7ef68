// Package engine holds the collections of one file: it applies batches and lists, keeps uncommitted writes in a
// memtable and commits them, reads the file and the memtable as one state, and maintains the secondary indexes. Package
// store and the packages below it are its only users. Begin to read at [Collection].
//
// # Writes
//
// A [Collection] receives batches (Apply) and lists (Begin). It computes the keys, payloads and index terms of the
// objects, compares them with the stored objects, and puts the writes into its memtable and its resident table. A
// collection in memory has only the resident table. One list may be open at a time; meanwhile, Apply fails with
// ErrReplacing.
//
// A [Memtable] holds the uncommitted writes of a collection in key order. A [CommitLoop] commits the memtables of all
// collections in one transaction, after an interval or once they have a certain size, and makes writers wait that are
// faster than the disk. If a commit fails, all changes stay uncommitted, and the loop tries again. A [Writer] writes
// one collection in that transaction: records, index entries, the changelog, and the [CollectionState] that covers
// them, so that after a crash the file has either all of them or none. Pass the cursors that Writer.Log.Settle returns
// to changelog.Cursors.Written before the next transaction begins.
//
// # Reads
//
// A [Reader] captures a [MemtableView], begins a transaction, and calls [Memtable.IsAt]. If no commit has begun or
// ended in between, both together are one consistent state. When a method returns, and while user code runs, no
// transaction is open. Damage causes an error that wraps entry.ErrDamaged; objects are never missing silently.
//
// [Residents] keep decoded objects in memory in client-go's structure: maps under an RWMutex, with sorted keys and
// postings. They are loaded from the file before reads use them; the file and its memtable define the content.
//
// # Indexes
//
// An [IndexSet] holds the index functions of a collection and their versions. [IndexSet.Terms] calls the functions for
// an object. Its result, the object's values by index name, is stored in the header of the object's record. In the
// file, an index is a bucket with one entry for each value of each object (format.IndexEntry). [IndexEntries] change
// with the records, in the same transaction. An [IndexView] answers look-ups from the entries and the memtable. In a
// sealed collection, values are stored as tokens; see [Sealing].
//
// The entries of indexes that are not ready are made one page of records in a transaction: in the background at the
// start of a process (BuildIndexes), where look-ups in these indexes wait for it, and in AddIndexers. An index that a
// process has not used is marked ([IndexEntries.Idle]), and dropped if the next process does not use it either.
//
// # User code
//
// Key, index and codec functions are called under no lock and in no transaction. If one of them fails or panics, that
// is an error. Goroutines commit, build indexes, and load objects into memory; Collection.Close and the close of the
// file wait for them.
package engine
