// Package intake is the way into a collection: it receives batches (Apply) and lists (Begin), keys, encodes and indexes
// their objects, finds out what they change, and puts the writes into the Back, which holds the objects. A Back is a
// file with a memtable over it, or memory alone; what a change is does not depend on that.
//
// Code of the user (key, index and codec functions) runs here, under no lock and in no transaction, and nothing here
// waits for the disk but Back.Backpressure and the reads of Back. One list may be open at a time; while it is, Apply
// fails with ErrReplacing.
package intake
