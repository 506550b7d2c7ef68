// Package indexer makes a collection of a store a cache.Indexer of client-go, with the same results and errors. Some
// methods of that interface have no error result; Indexer.Err returns their first error.
package indexer
