// Package layout is every byte of a snapshot's file but for the text of its catalog: prologue and footer, blocks of
// records, the index of a collection's blocks. snapshot/README.md is the specification.
//
// Its functions parse what anybody may have written: they bound what they take before they allocate it, and say in
// words what is wrong with it. They know no file: package snapshot reads and writes, and makes errors of the words.
// What they return may be part of what they were given.
package layout
