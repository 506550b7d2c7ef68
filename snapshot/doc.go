// Package snapshot keeps collections of objects, of a store or of a live cluster, in a portable file: *.larder.
//
// README.md in this directory is the specification of the format, byte by byte; docs/adr/0013 has the reasons for it.
//
// A Source is something to read collections from: a store (StoreSource), another snapshot (Open), a type of the
// program's own. Save writes a snapshot of a Source, SaveStore of a store that is in use, SaveServer of a live server
// without a store. SaveStream makes a file of the stream that SaveStoreTo has written. Open opens a snapshot through
// its catalog; File.Verify reads all of it. Restore makes a store of a snapshot. Select returns a Source without the
// objects and fields that a Filter and a Redaction leave out, for saving or for reading. Package snapshot/diff compares
// two Sources.
//
//	saved, err := snapshot.SaveStore(ctx, st, "monday.larder", snapshot.SaveOptions{})
//	restored, err := snapshot.Restore(ctx, "monday.larder", "node.db", snapshot.RestoreOptions{})
//
// # Whole snapshots
//
// SaveStore copies the store's file as it is at one moment and makes the snapshot of the copy, so no long transaction
// pins the store. Each collection is exactly what it was at its resourceVersion. Restore makes a store whose
// collections resume from there without a list; collections that lack objects or fields (filtered, redacted) are listed
// first. Secrets, and whatever else a store seals (Collection.Confidential), are not written in plain text, neither to
// a snapshot nor to a store, unless the caller asks for it.
//
// A file gets its name in one step, when it is whole and on the disk. Until then it is <name>.new-*; if the process is
// killed, the next save or restore to that name removes it. No other temporary file is left. The copy of a store is
// beside the store and is removed before the snapshot is written (otherwise the next open of the store removes it). A
// stream is kept in a file that has no name and is encrypted.
//
// # Documents
//
// A snapshot also has what its source knows of the API server: version, groups, OpenAPI schemas, the keys of service
// accounts. README.md names these documents. They go along with a save, a restore and a part of a snapshot, as far as
// they are about its collections; a redaction leaves out the keys. One that is damaged in a store is named as left out,
// and damage in a snapshot is damage. File.Documents and File.Document read them.
//
// # Records
//
// A record is an entry.Entry: an object as a store has it, not decoded. So a snapshot carries objects of kinds that
// this program does not know, and they come out as they went in. Only selectors by label and field, redaction,
// snapshot/diff and Decoder look into objects; for an unknown type they fail with ErrUndecodable. Unstructured objects
// and typed ones in JSON can always be decoded, typed ones in protobuf if client-go's scheme has the kind.
//
// Keys ascend by bytes within a collection. A save refuses a Source whose keys do not (ErrOrder), and a File returns
// them in that order. Collections are in the order of the Source.
//
// # What is promised
//
//   - Everything that is returned has been verified by SHA-256, with its place in the file, before it is decompressed.
//     Damage is a DamageError that names block, offset, collection and keys as far as they are known. A File passes
//     over a damaged block, returns everything else, and then fails with a MissingError that names the blocks and the
//     number of objects. A damaged index costs its collection. A file that was cut short has no catalog and is not
//     opened: use another copy. A save or restore of a damaged snapshot leaves nothing. No file makes this package
//     panic.
//   - Memory is one block (256 KiB; or the largest record or document, up to 16 MiB), the tables of a zstd encoder
//     (2 MiB, to write), the index of a collection (about 130 bytes a block), and the descriptions of all collections.
//     Memory that a file only announces is not allocated.
//   - A payload that is passed to a function is valid until the function returns. That of File.Get belongs to the
//     caller.
//   - A collection that was filtered or redacted cannot be resumed: Collection.MustRelist says why, and whoever
//     restores the collection must respect it.
//   - Errors name kinds, keys and fields, and never the contents of an object.
//
// # Encryption
//
// SaveOptions.Recipients encrypts the snapshot as it is written, as an age file. To read it, OpenOptions.Identities is
// needed: without, Open fails with ErrEncrypted; if none fits, with ErrIdentity. Package filippo.io/age makes
// recipients and identities. An encrypted file is read at random too, 64 KiB at a time.
//
// # Concurrency
//
// A File and a Decoder can be used by any number of goroutines. The package starts no goroutines.
package snapshot
