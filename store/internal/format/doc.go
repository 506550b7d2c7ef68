// Package format defines every byte that a store keeps on disk. layout.go has the names of buckets and keys and the
// state of a collection, record.go the records with their headers and the dictionaries, tuple.go the keys of indexes,
// and changelog.go the tombstones, the keys of the changelog and the cursors. The documentation of package store draws
// their structure in the file.
//
// The package only encodes and decodes: it opens no file and knows no transaction. Its input may be damaged or forged,
// so every length is checked before use. Errors wrap entry.ErrDamaged and show no content. Golden files in the testdata
// of package store pin the format.
package format
