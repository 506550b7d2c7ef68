// Package storetest holds the tests that every implementation of an interface
// of package store must pass: RunIndexer for cache.Indexer (client-go's own
// passes it, which is what makes it a contract), RunModel for
// store.Interface, RunQueries for its part that answers queries. Open gives a
// test a store that is checked when the test ends.
package storetest
