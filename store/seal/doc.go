// Package seal has the keys with which a store seals Secrets, or other kinds. A KeyProvider wraps the data key of a
// file: Keys does it with keys from a text, a file or a variable (ParseKeys, KeysFromFile, KeysFromEnv), or implement
// one for a KMS. Pass it to store.Options.Encryption. docs/adr/0012 has the reasons, and what sealing does not protect
// from.
package seal
