// Package body opens the bodies of stored records: it unseals, decompresses and decodes them, in that order.
//
// A Coder is for one collection, and is shared by its readers and writers. Open makes a Body of a record in a
// transaction, and Plain and Decode make bytes and an object of the Body, in the transaction or after it. Writing
// goes the other way: the codec encodes before the memtable, the Compressor compresses at the commit, and Sealer.Append
// seals.
//
// Errors wrap entry.ErrDamaged if the file is damaged, and entry.ErrIncompatible if this program cannot read a record
// that is whole.
package body
