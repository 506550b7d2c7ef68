// Package commit commits what is pending in the memtables of a store's collections: all of it in one transaction of the
// file, at an interval or once there is much of it, and makes writers wait that are faster than the disk.
//
// A Loop knows a collection as a Member, and what a commit writes of it as a Snapshot. A commit is prepared, takes the
// writer's place of the file, is written, and Snapshot.Done has taken over its outcome before the place is given to the
// next writer. If it fails everything stays pending, and it is tried again.
package commit
