// Package format defines every byte that a store keeps on disk: the names of buckets and keys (layout.go), records and
// their headers (record.go), the keys of indexes (tuple.go), the state of a collection (info.go), tombstones and the
// keys of the changelog (tombstone.go), dictionaries (dictionary.go) and cursors (cursor.go). The documentation of
// package store draws their structure in the file.
//
// The package only encodes and decodes: it opens no file and knows no transaction. Its input may be damaged or forged,
// so every length is checked before use. Errors wrap entry.ErrDamaged and show no content. Golden files in the testdata
// of package store pin the format.
package format
