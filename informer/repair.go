package informer

import (
	"context"
	"errors"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// watchFailure wakes the process loop when the file fails, so that damage which only a reader has found is repaired
// without an event. It also wakes the process loop when a reader finds an object that this program cannot decode, and
// when the store is closed, which ends the run.
func (i *sharedInformer) watchFailure(ctx context.Context) {
	if i.file == nil {
		return
	}
	readers := i.indexer.Failed()
	for {
		select {
		case <-i.file.Failed():
		case <-readers:
			if !errors.Is(i.indexer.Err(), entry.ErrIncompatible) {
				readers = nil // Failed of the file reports the file's failures, and other errors need no list
				continue
			}
		case <-i.file.Closing():
		case <-ctx.Done():
			return
		}
		// The process loop retries until the store is repaired. A later failure closes a new channel of file.Failed.
		select {
		case <-i.asks.ToLook():
		case <-ctx.Done():
			return
		}
		readers = i.indexer.Failed()
	}
}

// repairFailure repairs the store if it has failed and no other informer has repaired it yet. If a reader has found an
// object that this program cannot decode, it reports the object and requests a list. Then it clears the indexer's
// error.
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
		if err := p.indexer.Err(); errors.Is(err, entry.ErrIncompatible) && !p.listDue {
			p.listForReader(ctx, err)
		}
		p.indexer.ClearErr()
	}
	return err
}

// unreadableBackoff spaces the lists for unreadable objects. One such list replaces them all, so a second one means
// that the codec is inconsistent.
func unreadableBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Minute, Factor: 2, Jitter: 0.2, Steps: 10, Cap: time.Hour}
}

// listForReader reports that a reader has found an unreadable object, and requests a list that replaces it. During the
// backoff after the last such list it does nothing: the next reader that finds the object causes the request.
func (p *loop) listForReader(ctx context.Context, err error) {
	now := p.clock.Now()
	if now.Before(p.unreadableUntil) {
		return
	}
	if p.unreadablePause == nil {
		p.unreadablePause = unreadableBackoff()
	}
	p.unreadableUntil = now.Add(p.unreadablePause.Step())
	utilruntime.HandleErrorWithContext(ctx, err, "A reader has met a stored object that cannot be read; listing again",
		"type", p.o.ObjectDescription, "collection", p.o.Identity.String())
	p.listUnreadable()
}
