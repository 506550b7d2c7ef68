// Package check verifies a store's file: its pages, and what the collections in it hold.
//
// Pages and Branches verify that each page is sound and used once. If they find nothing, Content verifies the data
// keys, the documents and every collection: the checksum and shape of each record, index entries and changelog entries
// against record headers both ways, numbers against the info record, and the resourceVersion of a complete collection.
//
// All of them read in steps of about a megabyte, each in a transaction of its own, while others write: a long
// transaction would keep free pages from being reused. A step is consistent in itself. Keys that are counted over many
// steps need the writer's help: it tells Counts of each key that it adds or removes.
//
// A File is all that the package knows of a store. It knows the format of what is in the file, but no collection that
// is open.
package check
