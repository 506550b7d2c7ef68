package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/informer/internal/asks"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// loop is the process loop, the only writer of the store; sharedInformer lists its steps. It is one goroutine.
type loop struct {
	*sharedInformer
	relist func(reflector.Reason)
	// contradicted requests a list because an event shows that the server was rewound; acceptsContradiction reports
	// whether such a request would lead to a list. Both are methods of the Reflector.
	contradicted, acceptsContradiction func() bool

	attrs *attributes.Tracker
	// replay lists the handlers that get the stored objects when the process loop starts.
	replay []*delivery.Listener

	// ended is closed when run has returned.
	ended chan struct{}

	// list is the current list; nil if there is none. rewrites says that it rewrites every stored object.
	list     store.Replacement
	rewrites bool
	// listReason is the reason for list, or for the previous list if list is nil.
	listReason reflector.Reason
	// cold says that the collection was not complete when list began. The pages of a cold list are stored as they arrive.
	cold bool
	// savers waits for the goroutines of saveFirstList.
	savers sync.WaitGroup
	// listDue is true while the store may lack objects: a list that restores them is due and not stored yet.
	listDue bool
	// unreadablePause spaces the lists for unreadable objects, and unreadableUntil is the earliest time of the next;
	// nil and zero before the first.
	unreadablePause *wait.Backoff
	unreadableUntil time.Time
	// written is the last write to memory, until reportWrite reports it to the observer; nil if there is none.
	written *Commit
	// due holds log lines until deltasMu is released.
	due delivery.Lines
	// reported is the kind of the last reported store failure; nil while the store is healthy.
	reported error
}

// run processes batches until ctx ends, the store is closed or its file fails. It returns nil, or why it cannot
// continue.
func (p *loop) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel() // stops the savers, which otherwise retry while the disk is full and hide an error or a panic
		if p.list != nil {
			p.list.Abort()
		}
		p.savers.Wait()
	}()
	if err := p.restore(ctx); err != nil {
		return err
	}
	for {
		var b *fifo.Batch
		var err error
		if p.asks.Wait(ctx, func(ctx context.Context) { b, err = p.queue.Pop(ctx, fifo.Limits{}) }) {
			if err := p.handleAsks(ctx, p.asks.Take()); err != nil {
				return err
			}
			p.reviewSources()
		}
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, cache.ErrFIFOClosed):
			return nil
		default:
			continue
		}
		if err := p.process(ctx, b.Deltas); err != nil {
			return err
		}
		b.Ack()
		p.sync.processed(b.Deltas[0].Type == fifo.Drained)
		p.reviewSources()
	}
}

func (p *loop) handleAsks(ctx context.Context, a asks.Ask) error {
	if a.Looked != nil {
		if err := p.look(ctx); err != nil {
			return err
		}
		close(a.Looked)
	}
	if a.Unreadable != nil && p.health.rewritingNow() == "" { // it is not "" if a list rewrites everything
		if err := p.replaceUnreadable(ctx, []delivery.Unreadable{{Err: a.Unreadable}}); err != nil {
			return err
		}
	}
	if a.Resync {
		p.resync(ctx)
	}
	p.sync.saved(a.Saved)
	return nil
}

// resync starts the due resyncs: each handler gets the first page of the stored objects.
func (p *loop) resync(ctx context.Context) {
	for _, member := range p.joinedNow() {
		if !member.resyncs.Swap(false) {
			continue
		}
		for _, l := range member.processor.Resyncing() {
			if l.StartResync() {
				p.distribution.queueResync(ctx, l)
			}
		}
	}
}

// process handles one batch of deltas. A delta that is neither a change nor a bookmark is a batch of its own.
func (p *loop) process(ctx context.Context, deltas []fifo.Delta) error {
	d := deltas[0]
	switch {
	case d.Type == mustList:
		return p.markDue(ctx, d.Object.(reflector.Reason))
	case d.Type == fifo.ReplaceStarted:
		return p.beginList(ctx, d.Object.(listStart))
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
		return nil // run then calls syncing.processed
	case p.list != nil:
		return p.foldIn(ctx, deltas)
	}
	return p.apply(ctx, deltas)
}

func (p *loop) apply(ctx context.Context, deltas []fifo.Delta) error {
	b := entry.Batch{LastContact: p.contactTime(), Unpaced: true}
	for _, d := range deltas {
		if d.ResourceVersion != "" {
			b.ResourceVersion = d.ResourceVersion
		}
		if op, ok := opOf(d); ok {
			b.Ops = append(b.Ops, op)
		}
	}
	attempt := func() (entry.Result, error) {
		b.IfContradicted = p.ifContradicted()
		return p.store.Apply(ctx, b)
	}
	p.backpressure(ctx)
	return p.commit(ctx, p.observed(attempt), func(changes []entry.Change) {
		p.handleContradiction(ctx, changes, b.IfContradicted != "")
		p.distribute(slices.DeleteFunc(changes, unknownToHandlers), false)
	})
}

// unknownToHandlers reports whether c deletes an object that no handler knows: the store has no state of it, and the
// transform refused the state of the DELETED event. Handlers may know an object whose record is damaged.
func unknownToHandlers(c entry.Change) bool {
	return c.Type == cache.Deleted && c.Old == nil && c.New == nil && c.OldRef.Key == ""
}

// opOf returns the store operation of a delta. It returns false for a bookmark, which has none.
func opOf(d fifo.Delta) (entry.Op, bool) {
	switch d.Type {
	case cache.Added, cache.Updated:
		return entry.Op{Type: entry.Upsert, Object: d.Object, Event: eventOf(d)}, true
	case cache.Deleted:
		return entry.Op{Type: entry.Delete, Object: d.Object, Event: eventOf(d)}, true
	case fifo.LeftOut:
		return entry.Op{Type: entry.LeaveOut, LeftOut: d.Object.(entry.LeftOut)}, true
	}
	return entry.Op{}, false
}

// eventOf returns the type of a delta that has a resourceVersion, that is, a position in the server's history. It
// returns "" for a delta without one: an object that is delivered again, or an event after an object that was not
// requested.
func eventOf(d fifo.Delta) cache.DeltaType {
	if d.ResourceVersion == "" {
		return ""
	}
	return d.Type
}

// distribute queues changes for the handlers, in order. The caller holds deltasMu. As in client-go, updates that keep
// the resourceVersion reach only resyncing handlers. If all is true they reach every handler, because the content has
// changed.
func (p *loop) distribute(changes []entry.Change, all bool) {
	p.distribution.distributions.Add(1)
	p.auditor.Changed(changes)
	decodes, joined := p.decodes(), p.joinedNow()
	for _, c := range changes {
		if !decodes {
			continue
		}
		if err := decode(&c); err != nil {
			p.due.Add(func() { p.skip(context.Background(), c.Key, err) })
			continue
		}
		n := delivery.Call{Type: c.Type, Key: c.Key, Before: c.Old}
		first := !p.sync.isDone()
		if first {
			n.Firsts = 1
		}
		resync := false
		if c.Type == cache.Updated && c.Old == nil {
			n.Type = cache.Added // the old state is unreadable, so handlers have not received the object in this run
		}
		switch n.Type {
		case cache.Added:
			n.New, n.Initial = c.New, first
		case cache.Updated:
			n.Old, n.New = c.Old, c.New
			resync = !all && keepsVersion(c)
		case cache.Deleted:
			n.Old = deletedState(c)
		}
		if n.New != nil {
			p.detector.AddObject(n.New)
		}
		for _, member := range joined {
			member.processor.Distribute(n, resync, &p.due)
		}
	}
}

// deletedState returns the argument of OnDelete: the object of the DELETED event. Without that event it is a
// cache.DeletedFinalStateUnknown with the last stored state.
func deletedState(c entry.Change) any {
	if c.New != nil {
		return c.New
	}
	u := cache.DeletedFinalStateUnknown{Key: c.Key}
	if c.Old != nil { // a nil runtime.Object would be a non-nil any
		u.Obj = c.Old
	}
	return u
}

// keepsVersion reports whether an update has the resourceVersion of the stored state. It uses OldRef, because a handler
// may have modified Old.
func keepsVersion(c entry.Change) bool {
	m, err := meta.Accessor(c.New)
	return err == nil && c.OldRef.ResourceVersion == m.GetResourceVersion()
}

func (p *loop) left(ctx context.Context, skipped []entry.Skipped) {
	for _, s := range skipped {
		p.skip(ctx, s.Key, s.Err)
	}
}

// isClosed reports whether the store is closed, or its file was overwritten. Both end the run.
func isClosed(err error) bool {
	return errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrOverwritten)
}

// syncing says whether the informer has synced, and whether the store has everything that the reflector has delivered.
// The process loop writes it, except for pushed; any goroutine may read it.
//
// When the reflector has delivered the server's state at the time of contact, the sink pushes a fifo.Drained delta. The
// process loop reaches that delta when all deltas before it are in the store. The informer has synced when the process
// loop has reached a Drained delta and no object is missing. With Options.SyncPolicy Disk it has synced as soon as it
// serves the stored objects. If this run makes the collection's first list, the informer does not sync before that list
// is committed.
type syncing struct {
	once   sync.Once
	done   chan struct{} // done is closed when the informer has synced
	notify func()        // notify is called when done is closed
	// pushed counts the fifo.Drained deltas that the sink has pushed. applied is the number of the last Drained delta that
	// the process loop reached with no object missing.
	pushed, applied atomic.Int64
	// missing is true while the store may lack objects that the server has.
	missing atomic.Bool

	// marks counts the fifo.Drained deltas that the process loop has reached. Only the process loop uses marks,
	// markDeferred, saving and due.
	marks int64
	// markDeferred is true if the process loop has reached a fifo.Drained delta while objects were missing. When these are
	// restored, that delta becomes applied.
	markDeferred bool
	// saving counts the first lists that are applied in memory and not committed yet.
	saving int
	// due is true if syncing.done must be closed once saving is 0: the first list is complete except for its commit.
	due bool
}

func newSyncing(notify func()) *syncing { return &syncing{done: make(chan struct{}), notify: notify} }

func (s *syncing) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// complete closes done: the informer has synced. If a first list is not committed yet, saved closes done later. Only
// the process loop calls complete.
func (s *syncing) complete() {
	if s.due = s.saving > 0; !s.due {
		s.once.Do(func() {
			close(s.done)
			s.notify()
		})
	}
}

// saved is called with the number of first lists that have been committed since the last call.
func (s *syncing) saved(lists int) {
	if s.saving -= lists; s.due {
		s.complete()
	}
}

// level reports whether the process loop has stored everything before the last fifo.Drained delta that was pushed, with
// no object missing.
func (s *syncing) level() bool { return s.pushed.Load() == s.applied.Load() }

// processed is called after each batch. mark is true if the batch was a fifo.Drained delta.
func (s *syncing) processed(mark bool) {
	if mark {
		s.marks++
	}
	switch {
	case s.missing.Load():
		s.markDeferred = s.markDeferred || mark
	case mark || s.markDeferred:
		s.markDeferred = false
		s.applied.Store(s.marks)
		s.complete()
	}
}

// listBegun makes a fifo.Drained delta that was reached while objects were missing void: another follows the list.
func (s *syncing) listBegun() { s.markDeferred = false }

// synced is the HasSyncedChecker of an Informer. It is done once the Informer runs and its collection has synced.
type synced struct {
	name string
	once sync.Once
	done chan struct{}
}

var _ cache.DoneChecker = &synced{}

func newSynced(of any) *synced {
	return &synced{name: fmt.Sprintf("SharedIndexInformer %T", of), done: make(chan struct{})}
}

func (s *synced) Name() string          { return s.name }
func (s *synced) Done() <-chan struct{} { return s.done }

func (s *synced) complete() { s.once.Do(func() { close(s.done) }) }

// ifContradicted returns the Batch.IfContradicted of the next batch: the reason for a list, which the store saves with
// an event that proves a rewind. If this process ends before that list, the next process makes it, although by then the
// rewind may be undetectable. ifContradicted returns "" if the event would not cause a list.
func (p *loop) ifContradicted() string {
	if p.acceptsContradiction() {
		return string(reflector.ReasonRewound)
	}
	return ""
}

// handleContradiction requests a list if a change shows that the server was rewound: its event cannot follow the stored
// state. Objects may be missing until that list is stored. due says that the store has saved the reason that
// ifContradicted returned. The caller holds deltasMu.
func (p *loop) handleContradiction(ctx context.Context, changes []entry.Change, due bool) {
	at := slices.IndexFunc(changes, func(c entry.Change) bool { return c.Contradicts })
	if at < 0 || p.listDue {
		return
	}
	c := changes[at]
	if due {
		p.contradicted() // contradicted requests the list, unless a list has been requested already
		p.markMissing()
	}
	p.due.Add(func() {
		logger := klog.FromContext(ctx).WithValues("type", p.o.ObjectDescription, "event", c.Type, "key", c.Key)
		if due {
			logger.Info("An event cannot follow what is stored: the server was rewound, and everything is listed")
		} else {
			logger.V(2).Info("An event cannot follow what is stored, again since the connection was last lost; going on")
		}
	})
}
