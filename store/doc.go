// Package store keeps Kubernetes objects, their secondary indexes and their resourceVersion in one bbolt file.
//
// Call Open to open a file, then Collection once for each resource that is listed and watched:
//
//	s, err := store.Open("cache.db", store.Options{})
//	codec, err := codec.For(&corev1.Pod{})
//	c, err := s.Collection(ctx, entry.Identity{GroupVersionResource: pods}, store.CollectionOptions{Codec: codec})
//
// Write a Collection with Apply (events) and BeginReplace (a list). Read it with Get, List, ByIndex, Select and the
// other methods of Reader. The package memory has a collection without a file. A View reads a collection without
// opening it for writing. CopyTo and CopyFile write a consistent copy of the file. Import makes a store of records.
//
// # The file
//
//	larder                    format, created, file-id, clean mark; keys: the data keys, wrapped; only with Encryption
//	└─ <Identity.ID>          one bucket per collection
//	   ├─ info                resourceVersion, complete, attributes, count, next seq, states of the indexes (format.Info)
//	   ├─ objects             key                → record: UID, resourceVersion, seq, terms, payload (format/record.go)
//	   ├─ index/<name>        tuple(value, key)  → nothing; the value if the tuple has only its hash (format/tuple.go)
//	   ├─ dict                id                 → dictionary of compressed payloads (format/record.go)
//	   ├─ seq                 number             → key; this and the next two are the changelog (internal/changelog)
//	   ├─ tombstones          number             → time of a delete, the object's key and its last state
//	   ├─ times               number             → commit time of changes from this number on; only with RetainChanges
//	   └─ handlers            name               → position of a durable handler
//	documents                 name → data that a program stores beside collections (PutDocument)
//	dropped                   number → a large dropped collection, until its pages are freed
//
// Other files beside it:
//
//	<path>.opening            the lock of processes that open the file, and the number of opens that have not ended:
//	                          after a crash the file is verified, without being mapped, before it is used
//	<path>.new-*              a new file or a copy that is being written; if its process died, the next open for writing
//	                          removes it
//	<path>.damaged-<UTC>      a damaged file that was moved aside; the newest two are kept
//
// A record's header holds the object's index terms: the values under which the indexes file the object. A write removes
// the old index entries by the old header. It does not decode the old object for that, and does not call an index
// function, which may have changed.
//
// Payloads may be compressed one by one, with a dictionary (CollectionOptions.Compression). Each record says how its
// payload is stored, so the option can be changed at any time. A dictionary never changes, and stays as long as a
// record refers to it. docs/adr/0007 has costs and gains.
//
// # Encryption
//
// Options.Encryption seals the collections of Secrets, or of the resources that it names: their payloads, tombstones,
// dictionaries and index terms. Keys come from seal.ParseKeys, KeysFromFile or KeysFromEnv, or from a seal.KeyProvider.
// Names, namespaces, UIDs, resourceVersions, sizes and times stay readable. So does the fact that two objects have the
// same value in an index. In memory nothing is sealed.
//
// To rotate keys, put a new key before the old ones. New records are then sealed under the new key. Rekey seals the
// older records anew, and after that the old keys are not needed. A sealed file can be opened without keys: reads of
// sealed objects then fail with seal.ErrSealed, except for names. Records from before the collection was sealed stay in
// plain text until Rekey (Info.PlainText). docs/adr/0012 has the reasons, and says which attacks sealing does not stop.
//
// # A write
//
// Apply has these steps:
//
//  1. Key, encode and index the objects, outside of any transaction or lock: these steps run the user's functions. An
//     object for which one of them fails is reported in Result.Skipped.
//  2. Find the old states, in memory or in the file. If index functions were added since step 1, repeat step 1.
//  3. Put the new states and their resourceVersion into the collection's memtable, where readers see them.
//
// The store commits the memtables of all its collections in one transaction, one second after the first change
// (Options.CommitInterval), at 4 MiB of changes or 32 MiB with the Residency All (CommitBytes), and at Flush and Close:
//
//  1. Take a snapshot of the memtable after some batch, and compress its payloads if the collection is compressed.
//     Later batches belong to the next commit.
//  2. Begin the transaction. For each key, read the old record and compare its terms with the new ones.
//  3. Write the records, each with the next sequence number, and remove and add index entries.
//  4. Write info, with the resourceVersion of the snapshot.
//  5. Commit. Whenever the process dies, the file has all of the changes or none.
//
// A list is committed in the same way. No reader waits for a commit. Apply and lists wait if they are faster than the
// disk (Collection.Backpressure). docs/adr/0005 has the reasons.
//
// # A list
//
// A Replacement compares each page with the collection, in the byte order of keys. An object whose body and index terms
// equal its record causes no write. UID and resourceVersion alone decide only in Replacement.Known. An entry.Undecoded
// with the bytes of its record is not decoded, since its terms are in the record. Differences are held until Commit,
// which puts them into the memtable: readers see the old state or the new one.
//
// At most 16 MiB of differences are held, or 256 MiB with the Residency All, whose objects are in memory anyway. Beyond
// that each difference is put into the memtable at once, and is in the result of its page. Info.MustRelist is then set
// until the list ends, so that a crash or Abort leads to another list. Deletes always wait for Commit, and come before
// the other changes, each in key order. If Commit has more changes than the limit, it returns a part of them and sets
// Result.More, so that its caller need not hold all of them decoded.
//
// In an incomplete collection (a cold start) differences are not held: they are put into the memtable from the first
// page on, and Commit makes the collection complete, even if the list is empty. An earlier process may have stored
// objects of a list that did not end, and never reported them. They are reported as added if the new list has them, and
// removed without a Change otherwise.
//
// A list that is not in key order takes more memory, for the keys that seemed to be missing. The result is the same.
//
// # The changelog
//
// Collection.OpenCursor registers a durable handler, which follows changes over restarts. From then on the collection
// keeps a changelog: the keys in the order of their last writes, and a tombstone for each deleted object.
// Collection.RetainChanges keeps the changelog for other readers, in any process that has the file open (View.Changes).
//
// A tombstone is dropped once all handlers have passed it and RetainChanges does not keep it. It is also dropped after
// the store was open for a week, unless RetainChanges keeps it longer, and beyond 100,000 tombstones. A handler that
// had not passed a dropped tombstone begins anew, and receives every object (Position.Replaying, Position.Why).
// docs/adr/0009 and 0014 have the reasons.
//
// # A file that another process has locked
//
// Open waits for Options.LockTimeout. Then it fails with ErrLocked, and the error names the process that has locked the
// file. A store never takes a file from another process, and never uses another file instead: docs/adr/0011 says why,
// and how to roll out a new version.
//
// # Guarantees
//
//   - Objects, index entries and their resourceVersion commit together. The stored resourceVersion is never newer than
//     the objects. After a crash or a power loss the file has the state after some batch: the newest committed batch or
//     a later one. The batches after that are lost. After Close the file has the last batch.
//   - A resourceVersion that CompareResourceVersion does not accept is not stored: the objects are served, and
//     Info.MustRelist says why a watch cannot be resumed.
//   - An object is left out if it cannot be keyed, encoded or indexed (an index function may panic), or if Commit of a
//     list cannot read it back. Result.Skipped reports it, and the rest of its batch and the resourceVersion are
//     committed. The old state of its key stays: a stale object does less harm than a missing one.
//   - A read verifies the checksum of each record that it reads, selected by a query.Query or not. It does not verify
//     that records which are not selected can be decoded.
//   - A read sees the state after some batch, or a part of a large list, and never an older state than an earlier read.
//     It uses at most one transaction, and none is open when it returns. Do not modify objects: they may be shared.
//   - No function of the user (key functions, index functions, callbacks of Iterate) runs inside a transaction or under
//     a lock.
//   - Indexes that the file lacks at a start are built in the background, and look-ups wait. If the build fails, or the
//     disk hangs, look-ups fail. A build holds at most a page of decoded objects: 4 MiB of payloads or 1,000 objects. A
//     read-only store builds no index: look-ups fail with ErrReadOnly unless the file has the index, of a function with
//     the same version. With the Residency All the indexes are in memory too, once the objects are loaded.
//   - A store is for one cluster at a time (Collection.ClaimCluster).
//
// # Damage and failing disks
//
// bbolt's pages have no checksums, and access to a mapped file that was truncated is a fault. So before Open maps the
// file it verifies the meta pages and the file's size, and before it writes it verifies the freelist and the branch
// pages. After an unclean close those are all branch pages; otherwise up to 2 MiB, and the rest in the background.
// Transactions contain faults, and records have checksums. Open copies the readable part of a damaged file to a new
// one, and moves the damaged file aside. If the file only cannot be read at the moment, Open fails and leaves it.
//
// There are three repairs:
//
//   - A damaged record: reads of its key fail, Info.MustRelist is MustRelistDamaged, and the next list or write of the
//     key replaces the record (Store.DamageFound). Its durable handlers receive every object again.
//   - Other damage stops all writing (Store.Err, Store.Failed). A mark beside the file makes the next Open copy its
//     readable part. Collections that have lost records must be listed.
//   - After a commit of unknown outcome (ErrOutcomeUnknown) the file is not written any more. The next attempt copies
//     it, verifies the copy and uses that. Changes wait in memory meanwhile, as after ErrNoSpace, where nothing was
//     written.
//
// Reads do not notice a record that is missing altogether; Check and Scrub do.
//
// # Concurrency and shutdown
//
// Any number of goroutines may read. One may write at a time, and other writers wait until their contexts end. A
// Collection can be open once, and its Replacement excludes other writes. The methods of one Replacement must not be
// called concurrently. Collection.Close and Store.Close cancel the goroutines that build indexes, and wait for them.
package store
