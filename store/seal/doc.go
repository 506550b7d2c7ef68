// Package seal has the keys with which a store seals Secrets, or other kinds. A KeyProvider wraps data keys: Keys does
// it with keys from a text, a file or a variable (ParseKeys, KeysFromFile, KeysFromEnv), or implement one for a KMS.
// Pass it to store.Options.Encryption. A DataKey seals the contents of one file.
//
// A DataKey seals records with XChaCha20-Poly1305 under random nonces, bound to bucket, collection, key and header, so
// that no record can take another's place. Index values become tokens, which can be looked up but not read.
// docs/adr/0012 has the reasons, and what sealing does not protect from.
package seal
