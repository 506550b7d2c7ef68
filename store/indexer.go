package store

import "k8s.io/client-go/tools/cache"

// Indexer is a collection as a cache.Indexer of client-go.
type Indexer struct{ cache.Indexer }

func newIndexer(Interface) *Indexer { return nil }

// Err returns the first error that a method without an error result met, or nil.
func (i *Indexer) Err() error { return nil }
