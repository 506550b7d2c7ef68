package informer

import (
	"context"

	"github.com/larder-dev/larder/store"
)

// watchFailure wakes the loop when the file fails, whoever met it: damage that only readers come upon must be
// repaired on a quiet resource too. And when the store is closed, which ends the run, however quiet the resource.
func (i *Informer) watchFailure(ctx context.Context) {
	if i.file == nil {
		return
	}
	for {
		select {
		case <-i.file.Failed():
		case <-i.file.Closing():
		case <-ctx.Done():
			return
		}
		// The loop goes on trying until it is repaired; another failure has another channel.
		select {
		case <-i.asks.toLook():
		case <-ctx.Done():
			return
		}
	}
}

// repairFailure repairs the store if it has failed and nobody has repaired it yet. What our readers met is over then,
// whoever did it.
func (p *loop) repairFailure(ctx context.Context) error {
	attempt := func() (store.Result, error) {
		select {
		case <-p.file.Closing():
			return store.Result{}, store.ErrClosed
		default:
			return store.Result{}, p.file.Err()
		}
	}
	err := p.commit(ctx, attempt, func([]store.Change) {})
	if err == nil {
		p.indexer.Mended()
	}
	return err
}
