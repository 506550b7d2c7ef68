// Package indexer is a collection of a store as a cache.Indexer of client-go: with the same results and errors, and
// with Err, which has what a method without an error result met.
package indexer
