package informer

import (
	"context"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/reflector"
)

// storeFound is the type of a delta that tells the pump of contents that have appeared in the store.
const storeFound cache.DeltaType = "StoreFound"

// logNotPersistent says at the start that the next start will list, or may.
func (i *Informer) logNotPersistent(logger klog.Logger) {
	what := "Objects are kept in memory only: each start lists"
	if i.volatile == "" {
		what = "Objects are in memory only, until the store has its file"
	}
	if why := i.notPersistent(); why != "" {
		logger.Info(what, "type", i.o.ObjectDescription, "representation", i.o.Identity.Representation, "why", why)
	}
}

// watchFound wakes the pump when a store that was in memory has got its file, and the file has what the informer, without a server, could not list: it
// serves that from then on, as if it had been there at the start.
func (i *Informer) watchFound(ctx context.Context) {
	select { // for ever where there is no file
	case <-i.appeared:
		_ = i.queue.Push(ctx, fifo.Delta{Delta: cache.Delta{Type: storeFound}}) // an error says that the run ends
	case <-ctx.Done():
	}
}

// contentsAppeared reports whether that has happened. Whoever sees the contents does so after it.
func (i *Informer) contentsAppeared() bool {
	select {
	case <-i.appeared:
		return true
	default:
		return false
	}
}

// adopt tells the handlers of contents that have appeared before it lets d be processed, which may have been sent over them. What is too old to be told waits for
// the server, as at a start.
func (p *pump) adopt(ctx context.Context, d fifo.Delta) error {
	if p.adopted || !p.contentsAppeared() {
		return nil
	}
	if !p.retention.serves() {
		p.waited = true
		switch d.Type {
		case storeFailed, storeUnreadable, storeFound, cache.SyncAll:
			return nil
		}
	}
	p.adopted = true
	if p.list != nil { // of which the store has not kept anything
		p.abortList()
		p.void, p.losses = true, p.lossesNow()
		p.listAgain(ctx, reflector.ReasonStore)
	}
	p.replay = p.unreplayed()
	err := p.restore(ctx)
	p.reviewSource()
	return err
}

// adoptInList is adopt for a list that has just been begun: if there are contents now, it was for want of them, or would tell what differs from what nobody was told of.
func (p *pump) adoptInList(ctx context.Context) error {
	if p.adopted || !p.contentsAppeared() {
		return nil
	}
	return p.adopt(ctx, fifo.Delta{Delta: cache.Delta{Type: fifo.ReplaceStarted}})
}

// unreplayed returns the handlers that have not been told of what is stored, since there was nothing. Those that come now are.
func (p *pump) unreplayed() (some []*listener) {
	p.deltasMu.Lock()
	defer p.deltasMu.Unlock()
	p.processor.each(func(l *listener) {
		if !l.foundReplays {
			some = append(some, l)
		}
	})
	return some
}
