package informer

import "context"

// file is what an informer asks of the file that its objects are in. *store.Store has it.
type file interface {
	Rebuild(ctx context.Context) error
	// Err is why the file failed, and Failed is closed when it does.
	Err() error
	Failed() <-chan struct{}
	// Closing is closed when the store is being closed.
	Closing() <-chan struct{}
	// CommitErr is why what is pending cannot be committed, and Committed is closed at the next attempt.
	CommitErr() error
	Committed() <-chan struct{}
	Flush(ctx context.Context) error
}

// collection is what an informer asks of its collection in that file, beside a store.Interface. *store.Collection has
// it.
type collection interface {
	// Close gives the collection back.
	Close() error
	// Losses is how often a rebuild of the file has lost objects of it.
	Losses() int
	// ClaimCluster keeps two clusters out of one file.
	ClaimCluster(id string, exchanged bool) error
	// WaitRoom waits while too much is pending.
	WaitRoom(ctx context.Context) error
	// WaitResident waits until the objects are in memory, if they are to be.
	WaitResident(ctx context.Context) error
}

// claimCluster is the collection's ClaimCluster; nil if there is none.
func (i *Informer) claimCluster() func(id string, exchanged bool) error {
	if i.collection == nil {
		return nil
	}
	return i.collection.ClaimCluster
}
