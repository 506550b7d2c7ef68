// Package body unseals, decompresses and decodes the payloads of stored records, in that order.
//
// A Coder belongs to one collection, and is shared by its readers and writers. Open makes a Body from a record in a
// transaction. Plain and Decode make bytes and an object from the Body, in the transaction or after it. Writes use the
// opposite order: the codec encodes the object before it enters the memtable, the Compressor compresses it at the
// commit, and Sealer.Append seals it.
//
// Errors wrap entry.ErrDamaged if the file is damaged, and entry.ErrIncompatible if the record is intact but unreadable
// for this program.
package body
