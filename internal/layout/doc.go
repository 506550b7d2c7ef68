// Package layout encodes and parses the parts of a snapshot file, except the JSON of the catalog: prologue and footer,
// blocks of records, the index of a collection's blocks. snapshot/README.md is the specification. A running sync sends
// entries to commands in blocks of the same encoding (package source).
//
// Its functions trust no input: they check every size before they allocate, and return a description of the defect.
// They do no I/O: package snapshot reads and writes, and wraps the descriptions in errors. Results may share memory
// with the input.
package layout
