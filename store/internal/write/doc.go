// Package write writes one collection in a transaction of its file: records, index entries, the changelog and the state
// that covers them. After a crash, the file has either all of them or none.
//
// One goroutine uses a Writer in one transaction. Call Begin; then Commit for a snapshot of a memtable, or other
// methods followed by Log.Settle and Put. Pass the cursors that Settle returns to changelog.Cursors.Written before the
// next transaction begins.
package write
