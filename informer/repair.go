package informer

import (
	"context"
	"errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// watchFailure wakes the loop when the file fails, so that damage which only a reader has met is repaired even if no
// events come; and when a reader meets an object that this program cannot read. It also wakes the loop when the store
// is closed, which ends the run.
func (i *Informer) watchFailure(ctx context.Context) {
	if i.file == nil {
		return
	}
	readers := i.indexer.Failed()
	for {
		select {
		case <-i.file.Failed():
		case <-readers:
			if !errors.Is(i.indexer.Err(), entry.ErrIncompatible) {
				readers = nil // the file has failed, or will be read again
				continue
			}
		case <-i.file.Closing():
		case <-ctx.Done():
			return
		}
		// The loop tries until the store is repaired; the next failure has another channel.
		select {
		case <-i.asks.ToLook():
		case <-ctx.Done():
			return
		}
		readers = i.indexer.Failed()
	}
}

// repairFailure repairs the store if it has failed and no other informer has repaired it yet. If a reader has met an
// object that this program cannot read, as another one has stored it, repairFailure requests a list. Then it clears the
// indexer's error.
func (p *loop) repairFailure(ctx context.Context) error {
	attempt := func() (entry.Result, error) {
		select {
		case <-p.file.Closing():
			return entry.Result{}, store.ErrClosed
		default:
			return entry.Result{}, p.file.Err()
		}
	}
	err := p.commit(ctx, attempt, func([]entry.Change) {})
	if err == nil {
		if errors.Is(p.indexer.Err(), entry.ErrIncompatible) && !p.listDue {
			p.listUnreadable()
		}
		p.indexer.Mended()
	}
	return err
}
