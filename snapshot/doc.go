// Package snapshot keeps collections of objects, of a store or of a live cluster, in a portable file: *.larder.
//
// README.md in this directory is the specification of the format, byte by byte; docs/adr/0013 says why it is as it is.
//
// NewWriter writes a snapshot to a stream:
//
//	w, err := snapshot.NewWriter(out, snapshot.Header{ClusterID: id, TakenAt: now, Larder: version}, snapshot.WriterOptions{})
//	err = w.Begin(snapshot.Collection{Identity: pods, ResourceVersion: "42", Complete: true})
//	err = w.Add(record) // any number of times, keys ascending
//	err = w.End()
//	err = w.Close() // before that it is none
//
// or Writer.Copy writes all of a Source. Open reads a snapshot at random, by its index; NewReader front to back, from a
// pipe. File, which Open returns, is a Source. Select is a Source without what a Filter and a Redaction leave out; it
// works the same on the way into a snapshot and out of one. Diff compares two Sources, Verify checks a whole snapshot.
//
// # Whole snapshots
//
// SaveStore writes one of a store that is open, while it is written: the store's file is copied as it is at one moment
// and the snapshot made of the copy, so no long transaction pins the store. SaveFile takes a store that no process has
// open, SaveServer a live server without a store. Each collection is exactly what it was at its resourceVersion.
// Restore makes a store, whose collections resume from there with no list; those of which objects or parts are missing
// (filtered, redacted) are listed first. Secrets, and whatever else a store seals (Collection.Confidential), are in no
// snapshot, and in no store, in plain text unless that is asked for.
//
// Files get their names when they are whole and on the disk, in one step. Until then they are <name>.new-*, which the
// next save or restore of that name removes where a process was killed. Nothing else is left, of temporary files
// neither: the copy of a store is beside it (beside the snapshot where there is no room, unless that is encrypted, or
// if the store has not got its file) and gone before the snapshot is written (a next open of the store removes it
// otherwise), and a list of several pages is kept in a file that has no name and is encrypted.
//
// # Records
//
// A record is a entry.Entry: an object as a store has it, not decoded. So a snapshot carries objects of kinds that this
// program does not know, and they come out as they went in. Only selectors by label and field, redaction, Diff and
// Decoder look into objects; there an unknown type is ErrUndecodable, or is left out where the caller says so.
// Unstructured objects and typed ones in JSON can always be decoded, typed ones in protobuf if client-go's scheme has
// the kind.
//
// # Order
//
// Keys ascend by bytes within a collection; a Writer refuses others (ErrOrder), and readers return them so. Collections
// are in the order in which they were begun.
//
// # What is promised
//
//   - What is returned has been verified by SHA-256, with its place in the file, before it is unpacked. Damage is a
//     DamageError that names block, offset, collection and keys as far as they are known. A Reader ends there, and has
//     returned everything before it. A File passes over the block, returns everything else, and then fails with a
//     MissingError: which blocks, and how many objects. A file that was cut short has no index and is not opened: use
//     another copy. No file makes this package panic.
//   - Memory is one block (256 KiB; the largest record, 16 MiB at most, if it is larger), what a zstd encoder takes (2
//     MiB, to write), and a page of the index. Of a File there are besides the descriptions of its collections. What a
//     file only announces is not allocated.
//   - A payload that is passed to a function, or returned by Reader.Next, is valid until the function returns, or the
//     next call. That of File.Get belongs to the caller.
//   - What was filtered or redacted cannot be resumed: Collection.MustRelist says why, and whoever restores a
//     collection must respect it.
//   - Errors name kinds, keys and fields, and never what is in an object.
//
// # Encryption
//
// WriterOptions.Recipients wraps the snapshot in an age file, as it is written. Readers see that it is one, and need
// OpenOptions.Identities: without, ErrEncrypted; with none that fits, or another passphrase, ErrIdentity.
// ParseRecipients, ReadRecipients, ParseIdentities, ReadIdentities, PassphraseRecipient and PassphraseIdentity make
// them. It is read at random as any other, 64 KiB at a time.
//
// # Concurrency
//
// A File and a Decoder can be used by any number of goroutines, a Writer and a Reader by one. The package starts no
// goroutines.
package snapshot
