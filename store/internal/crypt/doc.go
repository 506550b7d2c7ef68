// Package crypt transforms the payloads of stored records: it compresses and seals them, and unseals, decompresses and
// decodes them again.
//
// A [Coder] belongs to one collection, and is shared by its readers and writers. [Coder.Open] makes a [Body] from a
// record in a transaction. Plain and Decode make bytes and an object from the Body, in the transaction or after it.
// Writing happens in the opposite order: the codec encodes the object before it enters the memtable, the [Compressor]
// compresses it at the commit, and [Sealer.Append] seals it.
//
// Payloads are compressed with zstd and a [Dictionary] that is made of some of them, since objects of one kind are
// alike. A Dictionary never changes. A record names the dictionary that its payload is compressed with, so the file
// keeps each dictionary as long as a record names it. docs/adr/0007 explains why dictionaries are raw parts of
// payloads, and their size. [Dictionaries] reads and writes their records.
//
// A [Ring] holds the data keys of one file. The file stores them, wrapped by the provider's keys, in one record under
// format.KeyKeys. Unlock unwraps them. Ensure writes the record before anything is sealed with a new key. Renewed
// returns the ring of a resealed copy of the file. The zero Ring is locked: records that are not sealed can be read,
// and for sealed ones it fails with seal.ErrSealed.
//
// A [Sealer] belongs to one collection. It chooses the key that seals a new record, and opens records sealed with any
// key. XChaCha20-Poly1305 with random nonces binds each record to its bucket, collection, key and header, so that no
// record can replace another. Index values become tokens, which can be looked up but not read. docs/adr/0012 explains
// the reasons, and the limits of the protection.
//
// Errors wrap entry.ErrDamaged if the file is damaged, and entry.ErrIncompatible if the record is intact but this
// program cannot read it.
package crypt
