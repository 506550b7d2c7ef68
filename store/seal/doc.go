// Package seal has the keys that a store seals Secrets, or other kinds, with: those that wrap (ParseKeys for keys from
// a text, KeysFromFile, KeysFromEnv, KeyProvider for a KMS), and the DataKey that one file is sealed with.
//
// A DataKey seals records with XChaCha20-Poly1305 under random nonces, bound to bucket, collection, key and header,
// so that none can take another's place; values of an index become tokens, by which they can be looked up and not read.
// docs/adr/0012 has the reasons, and what this does not protect from.
package seal
