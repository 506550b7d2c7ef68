// Package copier copies a store's file to a fresh file: bucket by bucket, each in the order of its keys, so that pages
// are filled one after the other. It verifies records, tombstones, dictionaries and documents.
//
// There are three ways to copy:
//
//   - Unchanged, with what a newer program has added: a compaction, and a file that was removed while it was open.
//   - With Copier.Key, which seals every collection anew that must be sealed: a change of keys.
//   - With Copier.Salvage, which leaves out damaged parts and names them in Lost and Behind: a rebuild.
//
// The last two ways make index entries from the headers of records, and do not read the old ones. What is left of
// dropped collections is never copied.
//
// A page of entries is read in one transaction of the old file and written in one of the fresh file, so no transaction
// is long. All pages are of the same state, because the caller keeps others from writing. Damage of the old file fails
// the store (Copier.Settle); an error of the fresh file does not.
//
// Set the fields of a Copier and call Copy; then give Fresh the name of the old file, or discard it.
package copier
