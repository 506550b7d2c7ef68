// Package write writes one collection in a transaction of its file: records, index entries, the changelog and the state
// that covers them, so that a crash leaves all of it or nothing.
//
// A Writer is used by one goroutine, in one transaction: Begin; then Commit for what a memtable holds, or what else is
// to be written, then Log.Settle and Put. The cursors that Settle returns are to be passed to changelog.Cursors.Written
// before the next transaction begins.
package write
