// Package snapshot keeps collections of objects, of a store or of a live cluster, in a portable file: *.larder.
//
// README.md in this directory is the specification of the format, byte by byte; docs/adr/0013 says why it is as it is.
//
// A Source is what collections are read from: a store (StoreSource), another snapshot (Open), a program's own. Save
// writes a snapshot of one; SaveStore of a store that is in use, SaveServer of a live server without a store,
// SaveStream of what SaveStoreTo has written. Open reads one, through its catalog and indexes, and File.Verify all of
// it. Restore makes a store of it. Select is a Source without what a Filter and a Redaction leave out, on the way into
// a snapshot and out of one. Package snapshot/diff compares two Sources.
//
//	saved, err := snapshot.SaveStore(ctx, st, "monday.larder", snapshot.SaveOptions{})
//	restored, err := snapshot.Restore(ctx, "monday.larder", "node.db", snapshot.RestoreOptions{})
//
// # Whole snapshots
//
// SaveStore copies the store's file as it is at one moment and makes the snapshot of the copy, so no long transaction
// pins the store. Each collection is exactly what it was at its resourceVersion. Restore makes a store, whose
// collections resume from there with no list; those of which objects or parts are missing (filtered, redacted) are
// listed first. Secrets, and whatever else a store seals (Collection.Confidential), are in no snapshot, and in no
// store, in plain text unless that is asked for.
//
// Files get their names when they are whole and on the disk, in one step. Until then they are <name>.new-*, which the
// next save or restore of that name removes where a process was killed. Nothing else is left, of temporary files
// neither: the copy of a store is beside it and gone before the snapshot is written (a next open of the store removes
// it otherwise), and a stream, or a list of several pages, is kept in a file that has no name and is encrypted.
//
// # Records
//
// A record is an entry.Entry: an object as a store has it, not decoded. So a snapshot carries objects of kinds that
// this program does not know, and they come out as they went in. Only selectors by label and field, redaction,
// snapshot/diff and Decoder look into objects; there an unknown type is ErrUndecodable. Unstructured objects and typed
// ones in JSON can always be decoded, typed ones in protobuf if client-go's scheme has the kind.
//
// Keys ascend by bytes within a collection; a save refuses a Source whose keys do not (ErrOrder), and a File returns
// them so. Collections are in the order of the Source.
//
// # What is promised
//
//   - What is returned has been verified by SHA-256, with its place in the file, before it is unpacked. Damage is a
//     DamageError that names block, offset, collection and keys as far as they are known. A File passes over the block,
//     returns everything else, and then fails with a MissingError: which blocks, and how many objects. An index that is
//     damaged costs its collection. A file that was cut short has no catalog and is not opened: use another copy. What
//     is saved or restored of a snapshot that is damaged leaves nothing. No file makes this package panic.
//   - Memory is one block (256 KiB; the largest record, 16 MiB at most, if it is larger), what a zstd encoder takes (2
//     MiB, to write), the index of a collection (about 130 bytes a block), and the descriptions of all. What a file
//     only announces is not allocated.
//   - A payload that is passed to a function is valid until the function returns. That of File.Get belongs to the
//     caller.
//   - What was filtered or redacted cannot be resumed: Collection.MustRelist says why, and whoever restores a
//     collection must respect it.
//   - Errors name kinds, keys and fields, and never what is in an object.
//
// # Encryption
//
// SaveOptions.Recipients wraps the snapshot in an age file, as it is written. Readers see that it is one, and need
// OpenOptions.Identities: without, ErrEncrypted; with none that fits, or another passphrase, ErrIdentity. Package
// filippo.io/age makes both. It is read at random as any other, 64 KiB at a time.
//
// # Concurrency
//
// A File and a Decoder can be used by any number of goroutines. The package starts no goroutines.
package snapshot
