// Package keyring holds the data keys of a file, and seals and opens the records of its collections with them.
//
// A Ring holds the keys of one file. The file stores them, wrapped by the provider's keys, in one record under
// format.KeyKeys. Unlock unwraps them. Ensure writes the record before anything is sealed with a new key. Renewed
// returns the ring of a resealed copy of the file. The zero Ring is locked: it reads unsealed records, and fails for
// sealed records with seal.ErrSealed.
//
// A Sealer belongs to one collection. It chooses the key that seals a new record, and opens records sealed with any
// key. XChaCha20-Poly1305 with random nonces binds each record to its bucket, collection, key and header, so that no
// record can replace another. Index values become tokens, which can be looked up but not read. docs/adr/0012 explains
// the reasons, and the limits of the protection.
package keyring
