// Package format is every byte that a store keeps on disk: the names of buckets and keys (layout.go), records and their
// headers (record.go), the keys of indexes (tuple.go), the state of a collection (info.go), tombstones and the keys of
// the changelog (tombstone.go), dictionaries (dictionary.go) and cursors (cursor.go). Package
// store draws how they lie in the file.
//
// It encodes and decodes, and does nothing else: it opens no file and knows no transaction. What it reads may be
// damaged, or made to look like a record by somebody: every length is checked before it is used, and its errors wrap
// entry.ErrDamaged and show no content. Golden files in the testdata of package store hold the format in place.
package format
