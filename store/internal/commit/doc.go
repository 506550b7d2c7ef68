// Package commit commits the changes in the memtables of a store's collections. It commits all of them in one
// transaction of the file, after an interval or once they have a certain size. Writers that are faster than the disk
// wait.
//
// A Loop accesses a collection as a Member, and the changes that one commit writes as a Snapshot. A commit is prepared,
// takes the writer lock of the file, and is written. Snapshot.Done handles the result before the next writer gets the
// lock. If a commit fails, all changes stay uncommitted, and the Loop tries again.
package commit
