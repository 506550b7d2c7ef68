// Package snapshot saves collections of a store or of a live cluster in a portable file: *.larder.
//
// README.md in this directory specifies the format, byte by byte; docs/adr/0013 has the reasons for it.
//
// A Source provides collections: a store (StoreSource), another snapshot (Open), or a type of the program. Save writes
// a snapshot of a Source, SaveStore one of a store in use, and SaveServer one of a live server without a store.
// SaveStream stores a stream written by SaveStoreTo in a file. Open opens a snapshot and reads its catalog; File.Verify
// reads all of it. Restore creates a store from a snapshot. Select wraps a Source, for saving or reading, and leaves
// out objects and fields by a Filter and a Redaction. Package snapshot/diff compares two Sources.
//
//	saved, err := snapshot.SaveStore(ctx, st, "monday.larder", snapshot.SaveOptions{})
//	restored, err := snapshot.Restore(ctx, "monday.larder", "node.db", snapshot.RestoreOptions{})
//
// # Whole snapshots
//
// SaveStore copies the store's file at one moment and reads the copy, so no long transaction pins the store. Each
// collection has exactly the state of its resourceVersion. The collections of a restored store resume their watches
// from there without a list. Filtered and redacted collections, which lack objects or fields, are listed first.
// Secrets, and other collections that a store seals (Collection.Confidential), are written in plain text only on
// request, both to a snapshot and to a store.
//
// A file gets its name in one step, once it is complete and synced. Until then it is called <name>.new-*; if the
// process is killed, the next save or restore to that name removes it. SaveStore's copy of a store lies beside the
// store. Where the system cannot remove an open file, the copy is removed after the save, or by the next open of the
// store.
//
// # Documents
//
// A snapshot also has documents: facts about the API server such as its version, groups, OpenAPI schemas, and the keys
// of service accounts. A save and a restore copy the documents that describe the copied collections; a redaction leaves
// out the keys. A damaged document of a store is reported as left out. A damaged document of a snapshot is an error.
//
// # Records
//
// A record is an entry.Entry: a stored object, not decoded. So a snapshot carries objects of kinds that this program
// does not know, unchanged. Only label and field selectors, redaction, snapshot/diff and Decoder decode objects; they
// fail with ErrUndecodable for an unknown type. Unstructured objects and typed objects in JSON can always be decoded,
// typed objects in protobuf only if client-go's scheme has the kind.
//
// Keys ascend by bytes within a collection. A save refuses a Source with keys out of order (ErrOrder), and a File
// returns keys in this order. Collections keep the order of the Source.
//
// # Promises
//
//   - Everything that is returned has been verified by SHA-256, with its place in the file, before decompression.
//     Damage is a DamageError with block, offset, collection and keys as far as they are known. A File skips a damaged
//     block, returns all other records, and then fails with a MissingError: the blocks, and the number of missing
//     objects. A damaged index costs its collection. A truncated file has no catalog and cannot be opened: use another
//     copy. A save or restore of a damaged snapshot leaves no file. No file makes this package panic.
//   - Memory is one block (256 KiB; or the largest record or document, up to 16 MiB), the tables of a zstd encoder
//     (2 MiB, to write), the index of a collection (about 130 bytes a block), and the descriptions of all collections.
//     A size in a file allocates no memory before it is checked.
//   - A payload that is passed to a function is valid until the function returns. The payload that File.Get returns
//     belongs to the caller.
//   - A filtered or redacted collection cannot be resumed. Collection.MustRelist gives the reason, and a program that
//     restores the collection must respect it.
//   - Errors name kinds, keys and fields, and never the contents of an object.
//
// # Encryption
//
// With SaveOptions.Recipients a snapshot is encrypted while it is written, as an age file. Reading it needs
// OpenOptions.Identities: without any, Open fails with ErrEncrypted; without a matching one, with ErrIdentity. Random
// reads of an encrypted file decrypt 64 KiB at a time.
//
// # Concurrency
//
// Any number of goroutines can use a File and a Decoder. The package starts no goroutines.
package snapshot
