// Package memory is a store.Interface without a file: for informers that need no disk, and for tests.
//
// A Collection has the semantics of a store.Collection, but encodes nothing: reads return the same objects that Apply
// received. Both use an engine.Collection. This one has a resident table, as with the Residency All, but no memtable
// and no file, so no method waits for a disk.
package memory
