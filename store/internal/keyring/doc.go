// Package keyring has the data keys of a file, and seals and opens the records of its collections with them.
//
// A Ring is the keys of one file. The file has them, wrapped by the provider's keys, in one record under
// format.KeyKeys. Unlock unwraps them, and Ensure writes the record before anything is sealed with a new key. Renewed
// returns the ring of a copy that is sealed anew. The zero Ring is locked: it reads what is not sealed, and fails with
// seal.ErrSealed for the rest.
//
// A Sealer is for one collection. It decides which key seals a new record, and opens records of every key.
// XChaCha20-Poly1305 under random nonces binds each record to bucket, collection, key and header, so that no record can
// take another's place. Index values become tokens, which can be looked up but not read. docs/adr/0012 has the reasons,
// and what sealing does not protect from.
package keyring
