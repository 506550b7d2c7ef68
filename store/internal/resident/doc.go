// Package resident keeps decoded objects in memory for readers. A Table holds all objects of a collection in
// client-go's structure, maps under an RWMutex, with sorted keys and postings. An All is a Table for a collection with
// a file. Its objects are loaded from the file before reads use it.
//
// The package is never the source of truth: the file and its memtable define the content of a collection. The package
// starts no goroutine. It calls user code only in MoreTerms, under no lock.
package resident
