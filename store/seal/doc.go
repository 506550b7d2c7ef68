// Package seal has the keys with which a store seals Secrets, or other resources. A KeyProvider wraps the data key of a
// file. Keys is a KeyProvider with keys from a text, a file or an environment variable (ParseKeys, KeysFromFile,
// KeysFromEnv); implement your own for a KMS. Pass it to store.Options.Encryption. docs/adr/0012 has the reasons, and
// says which attacks sealing does not stop.
package seal
