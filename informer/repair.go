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

// watchFailure wakes the loop when the file fails, so that damage which only a reader has met is repaired even if no
// events come; and when a reader meets an object that this program cannot read. It also wakes the loop when the store
// is closed, which ends the run.
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
// object that this program cannot read, repairFailure reports that and requests a list. Then it clears the indexer's
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

// unreadableBackoff spaces the lists for objects that readers cannot read. One such list leaves none, so a second one
// is for a codec that has changed its mind.
func unreadableBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Minute, Factor: 2, Jitter: 0.2, Steps: 10, Cap: time.Hour}
}

// listForReader reports that a reader has met an object that cannot be read, and requests a list that replaces it,
// unless the last one for that was a short time ago: then the next reader that meets it tries again.
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
