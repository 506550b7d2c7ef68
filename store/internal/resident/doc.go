// Package resident keeps decoded objects for reading: all objects of a collection in a Table, which is client-go's
// structure, maps under an RWMutex, with keys and postings in order. An All is a Table with a file behind it, from
// which its objects are loaded before reads use it.
//
// What is here is never a part of a snapshot: the file, and the memtable over it, say what a collection holds. This
// package starts no goroutine, and calls no code of the user but in MoreTerms, under no lock.
package resident
