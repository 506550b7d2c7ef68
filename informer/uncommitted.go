package informer

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-dev/larder/store"
)

// watchCommits tells when what is pending in the store cannot be committed, and when it can again. Failures that take
// a rebuild are the loop's to tell.
func (i *Informer) watchCommits(ctx context.Context) {
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

// noteCommitErr puts err into the status, and tells the watch error handler when it is of another kind than before. The
// store itself logs it.
func (i *Informer) noteCommitErr(ctx context.Context, err error) {
	if err != nil {
		err = fmt.Errorf("store of %s: changes are in memory only: %w", i.o.ObjectDescription, err)
	}
	before := i.health.setCommitErr(err)
	if err != nil && (before == nil || !errors.Is(before, kindOf(err))) {
		i.reportError(ctx, err)
	}
}

// waitRoom waits while too much is pending in the store, before deltasMu is taken: with it, Apply waits at the hard
// bound only. What fails then is left to the attempt to apply.
func (p *loop) waitRoom(ctx context.Context) {
	if p.collection != nil {
		_ = p.collection.WaitRoom(ctx) //nolint:errcheck // Apply says the same
	}
}

// tellCommit tells the observer of a commit by the store.
func (i *Informer) tellCommit(c store.Commit) {
	i.o.Observer.Committed(i, Commit{Changes: c.Objects, Took: c.Took, Err: c.Err})
}

// watchResident asks for a list if the stored objects cannot be brought to memory because some cannot be read.
func (i *Informer) watchResident(ctx context.Context) {
	if i.collection == nil {
		return
	}
	err := i.collection.WaitResident(ctx)
	if err == nil || ctx.Err() != nil || isClosed(err) || needsRebuild(err) {
		return
	}
	i.asks.toReplace(err)
}
