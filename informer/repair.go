package informer

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/store"
)

// storeFailed is the type of a delta that asks the pump to look after the store.
const storeFailed cache.DeltaType = "StoreFailed"

// failure is what an informer wants to know of a *store.Store: see its methods.
type failure interface {
	Err() error
	Failed() <-chan struct{}
}

// watchFailure wakes the pump when the file fails, whoever met it: damage that only readers come upon must be
// repaired on a quiet resource too. And when the store is closed, which ends the run, however quiet the resource.
func (i *Informer) watchFailure(ctx context.Context) {
	if i.failure == nil {
		return
	}
	for {
		select {
		case <-i.failure.Failed():
		case <-i.storeClosing:
		case <-ctx.Done():
			return
		}
		if err := i.queue.Push(ctx, fifo.Delta{Delta: cache.Delta{Type: storeFailed}}); err != nil {
			return
		}
		// The pump goes on trying until it is repaired; another failure has another channel.
		if err := i.queue.WaitIdle(ctx); err != nil {
			return
		}
	}
}

// repairFailure repairs the store if it has failed and nobody has repaired it yet. What our readers met is over then,
// whoever did it.
func (p *pump) repairFailure(ctx context.Context) error {
	attempt := func() (store.Result, error) {
		select {
		case <-p.storeClosing:
			return store.Result{}, store.ErrClosed
		default:
			return store.Result{}, p.failure.Err()
		}
	}
	err := p.commit(ctx, attempt, func([]store.Change) {})
	if err == nil {
		p.indexer.Mended()
	}
	return err
}
