// Package store keeps Kubernetes objects, their secondary indexes and the
// resourceVersion that covers them in one bbolt file.
//
// Open a file with Open, then one Collection per thing that was listed:
//
//	s, err := store.Open("cache.db", store.Options{})
//	codec, err := codec.For(&corev1.Pod{})
//	c, err := s.Collection(ctx, entry.Identity{GroupVersionResource: pods}, store.CollectionOptions{Codec: codec})
//
// A Collection is written by Apply (events) and BeginReplace (a list), and
// read by Get, List, Select (a query.Query by namespace, labels or fields, which decodes
// only what it selects), ByIndex and the rest of Reader, or through Collection.Indexer by whatever
// reads a cache.Indexer of client-go. Memory is a collection without a file;
// View reads a collection without opening it for writing.
//
// # The file
//
//	larder                    format, created, file-id, clean mark; keys: the data keys, wrapped; only with Encryption
//	└─ <Identity.ID>          one bucket per collection
//	   ├─ info                resourceVersion, complete, attributes, count, next seq, states of the indexes (format.Info)
//	   ├─ objects             key                → record: UID, resourceVersion, seq, created seq, index terms, payload (format/record.go)
//	   ├─ index/<name>        tuple(value, key)  → nothing, or the value where the tuple has its hash (format/tuple.go)
//	   ├─ dict                id                 → what compressed payloads have in common (format/dictionary.go)
//	   ├─ seq                 number             → key; while something consumes the changelog, like the next two (internal/changelog)
//	   ├─ tombstones          number             → when an object went, its key and its last state
//	   ├─ times               number             → when it was given, to a minute, if changes are kept for readers
//	   └─ handlers            name               → how far a durable handler has come
//	documents                 name → what a program keeps beside collections (PutDocument), as records are; made by the first
//	dropped                   number → a large collection that was dropped, while its pages are being made free
//
// Beside it there may be
//
//	<path>.opening            the lock of those who open it, and how many opens have not ended: after a crash the
//	                          file is verified, without being mapped, before it is used
//	<path>.new-*              a file that is being made, or a copy, or was when a process died; the next open for writing removes it
//	<path>.damaged-<UTC>      a damaged file that was moved aside; the newest two are kept
//
// The terms in a record's header are what the indexes file it under. A write
// removes old entries by the old header: it neither decodes the old object for
// them nor asks an index function that may have changed.
//
// Payloads may be compressed, each by itself, with a dictionary that is made of some of the collection's objects
// (CollectionOptions.Compression). A record says how it is stored, so the option can be switched at any time; a
// dictionary never changes, and stays as long as a record names it. docs/adr/0007 says what that costs and gains.
//
// # Encryption
//
// With Options.Encryption what is stored of Secrets, or of the kinds that it names, is sealed: payloads, tombstones,
// dictionaries and index terms. Keys for it come from seal.ParseKeys, KeysFromFile or KeysFromEnv, or from a
// seal.KeyProvider. The names of objects, their namespaces, UIDs and resourceVersions stay readable, and so do sizes,
// times and what objects have the same value in an index; in memory nothing is sealed. Look-ups by value work as ever.
//
// To rotate, give a new key before the old ones: what is written is sealed under it, and Rekey seals the rest, after
// which the old ones are not needed. A file whose data keys cannot be unwrapped is not opened, and not changed
// (seal.ErrWrongKey). Without any key it can be, and what is sealed in it is refused (seal.ErrSealed) but for names.
// What was stored before there was a key stays readable, for anybody, until Rekey (Info.PlainText). docs/adr/0012 has
// the reasons, and what this does not protect from.
//
// # A write
//
// Apply does this:
//
//  1. Key, encode and index the objects, outside of any transaction or lock: that is where code of the user runs. What
//     fails is Skipped.
//  2. Find the old states, in memory or in the file; if index functions were added since, go back to 1.
//  3. Put the new states into the collection's memtable, with the resourceVersion that covers
//     them. Readers see them from now on, and the Result is returned.
//
// The store commits the memtables of all its collections together, a second after the first change or at 4 MiB of
// changes, 32 MiB with the Residency All (Options.CommitInterval, CommitBytes), and at Flush and Close:
//
//  1. Take the memtable as it is after some batch, and compress its payloads where that is asked for. Batches that come
//     now are for the next commit.
//  2. Begin the transaction. For each key, read the old record, whose terms are diffed with the new ones.
//  3. Write records (each gets the next seq), remove and add index entries.
//  4. Write info, with the resourceVersion that covers all this.
//  5. Commit. Either all of it is in the file or nothing, whenever the process dies.
//
// A list is committed in the same way. No reader waits for a commit. Apply, and a list, wait where they are faster than
// the disk: for the commit under way, five seconds at most of each, once twice CommitBytes are pending, and as long as
// it takes once 64 MiB are (Collection.Backpressure). See ADR 0005.
//
// # Memory
//
// CollectionOptions.Residency says which objects are kept decoded: All of them, read as fast as from client-go's cache,
// or None. Objects in memory are shared by all readers.
//
// The package memory has a collection that is nowhere else.
//
// # A list
//
// A Replacement compares each page with the collection, in the order of keys' bytes. An object whose body and index
// terms are those of its record causes no write; UID and resourceVersion alone decide only for Replacement.Known. An
// entry.Undecoded with the bytes of its record is not decoded, since it has the terms of the record too. Differences
// are held until Commit, which puts them into the memtable: readers see the old state or the new one.
//
// Differences of more than 16 MiB (256 MiB with the residency All: those objects are in memory anyway) are not held.
// From then on each is put into the memtable as it comes and is in the result of its page, and Info.MustRelist is set
// until the list ends, so that a crash before that, or Abort, leads to another list. Deletes wait for Commit in any
// case, and come before the other changes, each in key order. A Commit with more than as much to tell of does a part,
// and its result says that there is More: else whoever is told of its changes would hold all of them decoded.
//
// In an incomplete collection (a cold start) differences are not held: they are put into the memtable from the first
// page, and Commit makes the collection complete. A list of no objects makes it complete too. Objects that an earlier
// process has stored from a list that did not end were never reported: they are reported as added if the new list has
// them, and removed without a Change if not.
//
// A list that is not in the order of keys takes more memory, for the keys that it seemed to lack, and nothing else.
//
// # The changelog
//
// Collection.OpenCursor registers a durable handler, or continues one that an earlier process has registered. From then
// on the collection keeps a changelog, from which the handler learns of changes over restarts: the keys in the order of
// their last writes, and a tombstone for each deleted object. Cursor.Read returns the changes after an offset, live
// objects once, in their last state; Cursor.Acknowledge sets the handler's position, which the next commit writes.
// Tombstones are dropped when all handlers have passed them and RetainChanges does not keep them; after a week in which
// the store was open, unless it does; and beyond 100,000. A handler that has not passed a dropped one begins anew, and
// receives every object (Position.Replaying, Position.Why). docs/adr/0009 has the reasons.
//
// Collection.RetainChanges keeps the changelog for readers that are not registered: a reader in any process that has
// the file open passes its offset to View.Changes and gets the changes since. docs/adr/0014 has the reasons.
//
// # While another process has the file
//
// Open waits for Options.LockTimeout, and no longer than the context of OpenContext lasts. Then it fails with
// ErrLocked, and the error names the process that holds the file. A store never takes a file from another process, and
// never runs beside its file: docs/adr/0011 says how to roll out a new version, and why.
//
// # To another file
//
// CopyTo and CopyFile write the file as it is at one moment while others read and write. Records has what a collection
// stores without decoding it, in key order, and Import makes a new store of such records: one that resumes as the first
// would have.
//
// # What is promised
//
//   - Objects, index entries and the resourceVersion that covers them commit
//     together. The stored resourceVersion is never ahead of the objects. After a crash or a power loss the file is
//     the state after some batch, the newest that was committed or a later one, and the batches that followed are lost;
//     after Close it is the last one.
//   - A resourceVersion that CompareResourceVersion does not accept is not
//     stored: the objects are served, and Info.MustRelist says why they cannot be resumed.
//   - An object that cannot be keyed, encoded or indexed (an index function may panic), or that a list's commit can
//     not read back, is left out and reported in Result.Skipped; the rest of its batch and the resourceVersion are
//     committed. What was stored under its key stays: a stale object does less harm than one that seems to be gone.
//   - A read verifies the checksum of each record that it looks at, selected by a query.Query or not. Whether a
//     record that is not selected could be decoded, it does not say.
//   - A read is the state after some batch, or some transaction of a list, never an older one than a read before it, by
//     key or not. It takes one transaction at most, and holds none when it returns. Do not modify objects: they may be
//     shared.
//   - No code of the user (key functions, index functions, callbacks of
//     Iterate) runs inside a transaction or under a lock.
//   - Indexes that the file lacks at a start are built in one pass in the background. Look-ups in them wait for that,
//     as long as their contexts and the store last; if the build fails, or the disk hangs, they say so. An index that
//     is added later is built by AddIndexers, and writers wait for it, with their contexts. A build holds no more
//     decoded objects than a page, 4 MiB of payloads or 1,000 objects. A store that is open for reading builds none:
//     look-ups fail with ErrReadOnly unless the file has the index, of a function with the same version. Where all
//     objects are in memory, so are their indexes, and no look-up waits.
//   - A store is for one cluster at a time: a Collection whose ClaimCluster names another one than those that are open
//     have claimed is refused with ErrOtherCluster. That is known to this process only and not stored.
//
// # Damage and failing disks
//
// bbolt's pages have no checksums, and a mapped file that is cut short is a fault. So Open looks at the meta pages and
// at the file's size before it maps anything, and at the freelist and the branch pages (all of them after an unclean
// close, else up to 2 MiB, and the rest in the background) before it writes; every transaction runs with faults
// contained, and records carry checksums. A file found damaged by Open is moved aside, and a fresh one is made; one
// that could not be read for a moment is left, and Open fails. Damage met later, by whichever reader, and a commit
// whose outcome is unknown stop all writing (Store.Err, Store.Failed). Rebuild then writes what can be read to a new
// file under the same name, and collections that lost something say so (Info.MustRelist): they are listed again. A
// record that is not there is missed by no read: Check finds it, and so does Scrub. (A file that is good is written
// anew by Compact, to be smaller.) Where there is no space, nothing has happened, and the write can be repeated.
//
// # Concurrency and shutdown
//
// Any number of goroutines may read. One may write at a time, and the others wait as long as their contexts last: a
// Collection is open once, its Replacement excludes other writes, and the methods of one Replacement must not be called
// concurrently. The goroutines that build indexes belong to the Store; Collection.Close and Store.Close cancel them and
// wait, for ten seconds if it is the disk that does not let them end: then they return ErrStillWriting, and what was
// begun goes on until the disk has finished it. CommitErr tells of a write that takes that long (ErrSlowDisk).
//
// A collection stays in the file until Drop or Prune removes it. Prune is for a program that no longer mirrors what an
// earlier build of it did.
package store
