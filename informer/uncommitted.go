package informer

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-dev/larder/store"
)

// watchCommits updates Status.Err when dirty changes cannot be committed, and when they can be committed again. The
// process loop reports failures that need a rebuild.
func (i *sharedInformer) watchCommits(ctx context.Context) {
	if i.file == nil {
		return
	}
	for {
		next := i.file.Committed()
		err := i.file.CommitErr()
		if needsRebuild(err) {
			err = nil
		}
		i.noteCommitErr(ctx, err)
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// noteCommitErr sets Status.Err to err, and calls the watch error handlers if the kind of error has changed. The store
// itself logs err.
func (i *sharedInformer) noteCommitErr(ctx context.Context, err error) {
	if err != nil {
		err = fmt.Errorf("store of %s: changes are in memory only: %w", i.o.ObjectDescription, err)
	}
	before := i.health.setCommitErr(err)
	if err != nil && (before == nil || !errors.Is(before, kindOf(err))) {
		i.reportError(ctx, err)
	}
}

// backpressure waits while too many changes of the store are dirty. It is called before deltasMu is taken, because the
// store's Apply waits only at a higher bound, with deltasMu held.
func (p *loop) backpressure(ctx context.Context) {
	if p.collection != nil {
		_ = p.collection.Backpressure(ctx) //nolint:errcheck // the following Apply returns the same error
	}
}

func (i *sharedInformer) notifyCommit(c store.Commit) {
	i.notifyObservers(Commit{Changes: c.Objects, Took: c.Took, Err: c.Err})
}

// watchResident requests a list if stored objects cannot be decoded while they are loaded into memory.
func (i *sharedInformer) watchResident(ctx context.Context) {
	if i.collection == nil {
		return
	}
	err := i.collection.WaitResident(ctx)
	if err == nil || ctx.Err() != nil || isClosed(err) || needsRebuild(err) {
		return
	}
	i.asks.ToReplace(err)
}
