package informer

import "context"

// file has the methods of *store.Store that an informer uses.
type file interface {
	Rebuild(ctx context.Context) error
	// Err returns why the file failed; nil if it has not. Failed is closed when it fails.
	Err() error
	Failed() <-chan struct{}
	// Closing is closed when the store begins to close.
	Closing() <-chan struct{}
	// CommitErr returns why dirty changes cannot be committed; nil if they can. Committed is closed at the next
	// attempt.
	CommitErr() error
	Committed() <-chan struct{}
	Flush(ctx context.Context) error
}

// collection has the methods of *store.Collection that an informer uses in addition to store.Interface.
type collection interface {
	// Close closes the collection, so that another informer can open it.
	Close() error
	// Losses returns how many rebuilds of the file have lost objects of the collection.
	Losses() int
	// ClaimCluster claims the file for the cluster with this id. It fails if another collection of the file is in use
	// for another cluster.
	ClaimCluster(id string, exchanged bool) error
	// Backpressure waits while too many changes are dirty.
	Backpressure(ctx context.Context) error
	// BuildIndexes begins to build the indexes that are not ready.
	BuildIndexes()
	// WaitResident waits until the resident objects have been loaded into memory.
	WaitResident(ctx context.Context) error
}
