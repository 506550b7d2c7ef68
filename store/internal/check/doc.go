// Package check verifies a store's file: its pages, and what the collections in it hold.
//
// Pages verifies that the branch pages are sound and each page is used once. If it finds nothing, Content verifies the
// data keys, the documents and every collection: the checksum and shape of each record, index entries and changelog
// entries against record headers both ways, numbers against the info record, and the resourceVersion of a complete
// collection. So it reads every leaf, and verifies it as a page too: a flipped bit that no reader looks at is a sign of
// a bad disk, and one in the number of a leaf's overflow pages would have bbolt free pages of others.
//
// Content reads in steps of about a megabyte, each in a transaction of its own, while others write: a long transaction
// would keep free pages from being reused. A step is consistent in itself. Only the keys of a bucket are counted in one
// transaction, right after the steps have read its pages.
//
// A File is all that the package knows of a store. It knows the format of what is in the file, but no collection that
// is open.
package check
