// Package memory is a store.Interface without a file: for informers that need no disk, and for tests.
//
// A Collection has the semantics of a store.Collection, but encodes nothing: reads return the same objects that Apply
// received. It applies batches and lists like a store.Collection (store/internal/engine), and reads like a collection
// with the Residency All (store/internal/engine). It has no memtable and no file, so no method waits for a disk.
package memory
