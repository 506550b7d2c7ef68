// Package check verifies a store's file: its pages, and the content of its collections.
//
// Pages verifies that the branch pages are valid and that each page is used once. If it finds no problem, Content
// verifies the data keys, the documents and every collection: the checksum and the shape of each record, index entries
// and changelog entries against record headers in both directions, and counts and numbers against the info record. A
// complete collection must have a resourceVersion.
//
// Content also verifies every leaf as a page. A flipped bit in a leaf is a sign of a bad disk, even if no reader would
// notice it. In the leaf's number of overflow pages, it would make bbolt free pages that are in use.
//
// Content reads in steps of about a megabyte, each in its own transaction, while writes continue: a long transaction
// would keep free pages from being reused. Each step is consistent in itself. Only the keys of a bucket are counted in
// one transaction, right after the steps have read its pages.
//
// The package accesses a store only through a File. It knows the file's format, but not the open collections.
package check
