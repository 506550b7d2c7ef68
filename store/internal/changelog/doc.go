// Package changelog is an index of a collection by sequence number: every live key once, at the number of its record,
// and a tombstone for each deleted object. A consumer finds the changes since its offset behind that number, however
// many objects there are.
//
//	seq          number → key                           each live object once
//	tombstones   number → time, key and last state      each deleted object, until it is dropped
//	times        number → when it was given, to a minute (Times), if changes are kept for readers
//	handlers     name   → how far a consumer has come   (consumer.Position): its cursor
//
// The buckets are in the bucket of the collection, and its info record has the State. They are written in the
// transaction that writes the records, by a Writer: Put, Bury, and Settle at the end of the transaction. A Log reads
// them in one transaction. The package decodes no payloads: a Change has the bytes of its record or tombstone.
//
// A collection keeps a changelog while something consumes it: cursors that are registered (Writer.Register), or readers
// that keep their offset themselves (Writer.Retain). It begins at State.Since: older records may have no entry, so a
// new consumer reads the objects by key first. Settle drops tombstones that no consumer needs, and those beyond the
// limits: more than 100,000, whoever needs them, or older than a week, unless they are retained for readers. It raises
// State.Lacks, and a cursor that had not passed them begins anew.
//
// Cursors are the cursors of an open collection in memory, which consumers move. A transaction writes a Snapshot of
// them, and Cursors.Written takes over what it has changed before the next transaction begins: else that would write
// the cursors as they were before.
package changelog
