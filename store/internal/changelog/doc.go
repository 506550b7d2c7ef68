// Package changelog is an index of a collection by sequence number: every live key once, at the number of its record,
// and a tombstone for each deleted object. A consumer reads the changes after its offset without reading the other
// objects.
//
//	seq          number → key                           each live object once
//	tombstones   number → time, key and last state      each deleted object, until it is dropped
//	times        number → its time, to a minute (Times), if changes are kept for readers
//	handlers     name   → the cursor of a consumer      (consumer.Position)
//
// These buckets are in the bucket of the collection, and its info record has the State. A Writer changes them in the
// transaction that writes the records: call Settle at its end. A Log reads them. Payloads are not decoded.
//
// A collection keeps a changelog while it has consumers: registered cursors (Writer.Register), or readers that keep
// their offset themselves (Writer.Retain). Records from before State.Since may have no entry, so a new consumer first
// reads the objects by key. Settle drops tombstones that no consumer needs, and tombstones over the limits: more than
// 100,000, or older than a week, unless they are retained for readers. It then raises State.Lacks, and resets each
// cursor that had not passed them.
//
// A transaction writes a Snapshot of the Cursors. Cursors.Written must apply the resets of that transaction before the
// next one begins, which would otherwise write the old cursors.
package changelog
