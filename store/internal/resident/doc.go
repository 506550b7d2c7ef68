// Package resident keeps decoded objects for reading: all objects of a collection in a Table, with hash slots and
// postings. An All is a Table with a file behind it, from which its objects are loaded before reads use it.
//
// One goroutine at a time writes (Apply); any number read. A Table has a lock of its own. Reads by key take none: they
// go by a KeyMap, which the table puts where its readers look, and takes away while it applies a batch of several keys,
// so that nobody sees a part of one.
//
// What is here is never a part of a snapshot: the file, and the memtable over it, say what a collection holds. This
// package starts no goroutine, and calls no code of the user but in MoreTerms, under no lock.
package resident
