// Package storetest has the tests that all implementations of the interfaces of package store must pass: RunIndexer for
// cache.Indexer, which client-go's own implementation passes too; RunModel for store.Interface; and RunQueries for the
// queries of store.Interface. Open opens a store that is checked when the test ends.
package storetest
