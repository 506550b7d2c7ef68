// Package intake receives the writes of a collection: batches (Apply) and lists (Begin). It computes the keys, payloads
// and index terms of the objects, compares them with the stored objects, and puts the writes into the Back, which holds
// the objects. A Back is a file with a memtable, or only memory; the resulting changes are the same.
//
// User code (key, index and codec functions) is called under no lock and in no transaction. Only Back.Backpressure and
// reads from the Back wait for the disk. One list may be open at a time; meanwhile, Apply fails with ErrReplacing.
package intake
