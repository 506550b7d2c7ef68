// Package layout encodes and parses the parts of a snapshot's file, except the JSON of the catalog: prologue and
// footer, blocks of records, the index of a collection's blocks. snapshot/README.md is the specification.
//
// Its functions trust no input: they check every size before they allocate, and return in words what is wrong. They do
// no I/O: package snapshot reads and writes, and makes errors of the words. Results may share memory with the input.
package layout
