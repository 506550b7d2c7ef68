// Package copier copies a store's file to a fresh file: bucket by bucket, each in key order, so that pages are filled
// one after the other. It verifies records, tombstones, dictionaries and documents.
//
// There are three ways to copy:
//
//   - Unchanged, including entries that a newer program has added. Compact uses it, and so does the exchange of an open
//     file that was removed, or to which a write of unknown outcome was made.
//   - With Copier.Fresh, which reseals every collection that must be sealed: a change of keys.
//   - With Copier.Salvage, which skips damaged parts and names them in Lost and Behind: the opening of a damaged file.
//
// The last two ways make index entries from the headers of records, and do not read the old index entries. Dropped
// collections are never copied.
//
// A page of entries is read in one transaction of the old file and written in one transaction of the fresh file, so no
// transaction is long. All pages are of the same state, because the caller prevents writes meanwhile. Damage of the old
// file makes the store fail (boltfile.File.Classify); an error of the fresh file does not.
//
// Set the fields of a Copier and call Copy; then give the fresh file the name of the old file, or discard it.
package copier
