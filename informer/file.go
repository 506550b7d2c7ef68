package informer

import "context"

// file is the part of *store.Store that an informer uses.
type file interface {
	Rebuild(ctx context.Context) error
	Err() error
	Failed() <-chan struct{}
	Closing() <-chan struct{}
	CommitErr() error
	Committed() <-chan struct{}
	Flush(ctx context.Context) error
}

// collection is the part of *store.Collection that an informer uses in addition to store.Interface.
type collection interface {
	Close() error
	Losses() int
	ClaimCluster(id string, exchanged bool) error
	Backpressure(ctx context.Context) error
	BuildIndexes()
	WaitResident(ctx context.Context) error
}
