package informer

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// loop is the process loop, the writer: see Informer for the steps. Its methods run in one goroutine.
type loop struct {
	*Informer
	relist func(reflector.Reason)
	// contradicted and heedsContradiction are those of reflector.Reflector.
	contradicted, heedsContradiction func() bool

	attrs *attributes.Tracker
	// replay are the handlers that wait for the stored objects when the loop starts.
	replay []*delivery.Listener

	// ended is closed when the loop does nothing any more.
	ended chan struct{}

	// list is the list that is being taken in; nil if there is none. rewrites is whether it writes every body anew.
	list     store.Replacement
	rewrites bool
	// listReason is why that list is made, or the last one was.
	listReason reflector.Reason
	// cold: the pages of list are stored as they come.
	cold bool
	// void is set when a list had to be given up: what follows of the stream has a hole before it,
	// so it is dropped up to the next list.
	void bool
	// unseen are the keys of objects that handlers know and that a repair of the store has lost. The next list shows which
	// of them are gone.
	unseen map[string]bool
	// listDue: objects may be missing of which a list has to tell, that has been asked for and not been stored yet.
	listDue bool
	// pause spaces the lists that listAgain asks for; nil if one has been stored since.
	pause *wait.Backoff
	// losses is how many of collection.Losses have been mended or are about to be.
	losses int
	// written is the write of the last attempt, if the observer has to be told of it.
	written *Commit
	// due is what is to be logged when deltasMu has been given back.
	due delivery.Lines
	// told is the kind of failure that has been reported; nil while the store is healthy.
	told error
}

// run runs until ctx ends or the store is closed; it returns nil or why it cannot go on.
func (p *loop) run(ctx context.Context) error {
	defer func() {
		if p.list != nil {
			p.list.Abort()
		}
	}()
	p.losses = p.lossesNow()
	p.durable.Start(ctx)
	if err := p.restore(ctx); err != nil {
		return err
	}
	for {
		var b *fifo.Batch
		var err error
		if p.asks.wait(ctx, func(ctx context.Context) { b, err = p.queue.Pop(ctx, fifo.Limits{}) }) {
			if err := p.heed(ctx, p.asks.take()); err != nil {
				return err
			}
			p.mendLosses(ctx)
			p.reviewSource()
		}
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, cache.ErrFIFOClosed):
			return nil // the run ends
		default:
			continue
		}
		if err := p.process(ctx, b.Deltas); err != nil {
			return err
		}
		p.mendLosses(ctx)
		b.Ack()
		p.sync.processed(b.Deltas[0].Type == fifo.Drained, p.void)
		p.reviewSource()
	}
}

// heed does what others have asked.
func (p *loop) heed(ctx context.Context, a ask) error {
	if a.looked != nil {
		if err := p.repairFailure(ctx); err != nil {
			return err
		}
		close(a.looked)
	}
	if a.unreadable != nil && p.health.rewritingNow() == "" { // else the replay has met it too
		if err := p.replaceUnreadable(ctx, []delivery.Unreadable{{Err: a.unreadable}}); err != nil {
			return err
		}
	}
	if a.resync {
		p.resync(ctx)
	}
	return nil
}

// process takes in a batch of what the server said.
func (p *loop) process(ctx context.Context, deltas []fifo.Delta) error {
	d := deltas[0]
	switch {
	case d.Type == mustList:
		return p.markDue(ctx, d.Object.(reflector.Reason))
	case d.Type == fifo.ReplaceStarted:
		return p.beginList(ctx, d.Object.(listStart))
	case p.void:
		return nil
	case d.Type == cache.Replaced:
		return p.takePage(ctx, d.Object.(page))
	case d.Type == fifo.ReplacedByRef:
		return p.takeRefs(ctx, d.Object.(*refsPage))
	case d.Type == fifo.ReplaceFinished:
		return p.finishList(ctx, d.ResourceVersion)
	case d.Type == fifo.ReplaceAborted:
		p.abortList()
		return nil
	case d.Type == fifo.Drained:
		return nil // syncing.processed notes it
	case p.list != nil:
		return p.foldIn(ctx, deltas)
	}
	return p.apply(ctx, deltas)
}

// apply commits a run of changes and bookmarks.
func (p *loop) apply(ctx context.Context, deltas []fifo.Delta) error {
	b := store.Batch{LastContact: p.contactTime(), Unpaced: true}
	for _, d := range deltas {
		if d.ResourceVersion != "" {
			b.ResourceVersion = d.ResourceVersion
		}
		if op, ok := opOf(d); ok {
			b.Ops = append(b.Ops, op)
		}
	}
	attempt := func() (store.Result, error) {
		b.IfContradicted = p.ifContradicted()
		return p.store.Apply(ctx, b)
	}
	p.waitRoom(ctx)
	return p.commit(ctx, p.observed(attempt), func(changes []store.Change) {
		p.heedContradiction(ctx, changes, b.IfContradicted != "")
		p.tell(slices.DeleteFunc(changes, p.unheardOf), false)
	})
}

// unheardOf reports the delete of an object of which there is nothing to tell: nothing is stored, and the transform has
// refused the last state too. Handlers know of it only if a repair has lost it.
func (p *loop) unheardOf(c store.Change) bool {
	return c.Type == cache.Deleted && c.Old == nil && c.New == nil && !p.unseen[c.Key]
}

// opOf returns what a delta does to the store; a bookmark does nothing.
func opOf(d fifo.Delta) (store.Op, bool) {
	switch d.Type {
	case cache.Added, cache.Updated:
		return store.Op{Type: store.Upsert, Object: d.Object, Event: eventOf(d)}, true
	case cache.Deleted:
		return store.Op{Type: store.Delete, Object: d.Object, Event: eventOf(d)}, true
	case fifo.LeftOut:
		return store.Op{Type: store.LeaveOut, LeftOut: d.Object.(entry.LeftOut)}, true
	}
	return store.Op{}, false
}

// eventOf is the type of an event of which the stream says where it is in the history; empty for others: those of
// strays, and what is delivered again.
func eventOf(d fifo.Delta) cache.DeltaType {
	if d.ResourceVersion == "" {
		return ""
	}
	return d.Type
}

// tell queues changes for the handlers, in order. The caller holds deltasMu. Updates that keep the resourceVersion
// reach only handlers that are resyncing, as in client-go, unless all is set: then the body has changed.
func (p *loop) tell(changes []store.Change, all bool) {
	p.pages.tells.Add(1)
	p.auditor.Changed(changes)
	for _, c := range changes {
		delete(p.unseen, c.Key)
		n := delivery.Call{Type: c.Type, Key: c.Key, Before: c.Old}
		first := !p.HasSynced()
		if first {
			n.Firsts = 1
		}
		resync := false
		if c.Type == cache.Updated && c.Old == nil {
			n.Type = cache.Added // the old state could not be read, so no handler was told of it in this run
		}
		switch n.Type {
		case cache.Added:
			n.New, n.Initial = c.New, first
		case cache.Updated:
			n.Old, n.New = c.Old, c.New
			resync = !all && sameVersion(c.Old, c.New)
		case cache.Deleted:
			n.Old = deletedState(c)
		}
		if n.New != nil {
			p.detector.AddObject(n.New)
		}
		p.processor.Distribute(n, resync, &p.due)
	}
}

// deletedState is what OnDelete gets: the event's object, or, if nobody saw the event, the last one stored.
func deletedState(c store.Change) any {
	if c.New != nil {
		return c.New
	}
	u := cache.DeletedFinalStateUnknown{Key: c.Key}
	if c.Old != nil { // not a nil runtime.Object in a non-nil any
		u.Obj = c.Old
	}
	return u
}

func sameVersion(a, b runtime.Object) bool {
	oldMeta, err1 := meta.Accessor(a)
	newMeta, err2 := meta.Accessor(b)
	return err1 == nil && err2 == nil && oldMeta.GetResourceVersion() == newMeta.GetResourceVersion()
}

// left reports the objects that the store left out.
func (p *loop) left(ctx context.Context, skipped []store.Skipped) {
	for _, s := range skipped {
		p.skip(ctx, s.Key, s.Err)
	}
}

func isClosed(err error) bool { return errors.Is(err, store.ErrClosed) }
