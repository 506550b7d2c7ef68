// Package resident keeps decoded objects for reading: all of a collection's in a Table, with hash slots and postings,
// or those that are read most, up to a number of bytes, in a Bounded.
//
// A Table is guarded by its owner's lock, but for Get, State and the KeyMap's other look-ups, which take none. A batch
// of several keys must not be seen in part, so the owner hides the KeyMap (and closes a Bounded) while it brings one
// here.
//
// What is here is never a part of a snapshot: the file, and what is pending over it, say what a collection holds.
package resident
