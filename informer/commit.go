package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// storeBackoff spaces the attempts to write to a store that fails: 0.2 s, doubled up to 10 s.
func storeBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 10 * time.Second}
}

// commit calls attempt, a write to the store, until it succeeds, and then calls done with the resulting changes. It
// holds deltasMu for both calls. Between attempts it releases deltasMu, repairs the store if necessary, and waits. It
// returns an error only if ctx has ended or the store is closed.
func (p *loop) commit(
	ctx context.Context, attempt func() (entry.Result, error), done func(changes []entry.Change),
) error {
	return p.persist(ctx, func() (entry.Result, error) {
		p.distribution.deltasMu.Lock()
		defer p.distribution.deltasMu.Unlock()
		res, err := attempt()
		if err == nil {
			done(res.Changes)
		}
		return res, err
	})
}

// persist repeats once, a write to the store, until it succeeds. Between attempts it repairs the store if necessary,
// and waits. It returns an error only if ctx has ended or the store is closed.
func (p *loop) persist(ctx context.Context, once func() (entry.Result, error)) error {
	repaired := false
	for delay := storeBackoff(); ; {
		res, err := once()
		p.due.Log()
		p.reportWrite(ctx)
		p.left(ctx, res.Skipped) // failed attempts report skipped objects too, and later attempts do not repeat them
		if err == nil {
			p.healthy(ctx)
			return nil
		}
		if ctx.Err() != nil || isClosed(err) {
			return err
		}
		p.unhealthy(ctx, err)
		if errors.Is(err, store.ErrReplaceLost) {
			p.discardList(ctx)
			continue
		}
		if needsRebuild(err) && p.repair(ctx) == nil && !repaired {
			repaired = true // only the attempt after the first repair is immediate
			continue
		}
		if err := base.Sleep(ctx, p.clock, delay.Step()); err != nil {
			return err
		}
	}
}

// discardList aborts the current list and requests another. Deltas are dropped until that list begins.
func (p *loop) discardList(ctx context.Context) {
	p.abortList()
	p.void = true
	p.losses = p.lossesNow()
	p.listAgain(ctx, reflector.ReasonDamaged)
}

// listAgain requests a list because the store lacks objects. The first request since a list was stored is immediate;
// later ones back off, so that a disk that cannot store a list does not cause one list after another. If the aborted
// list rewrites all stored objects, the new list does too.
func (p *loop) listAgain(ctx context.Context, reason reflector.Reason) {
	p.markMissing()
	if p.pause == nil {
		p.pause = storeBackoff()
	} else if base.Sleep(ctx, p.clock, p.pause.Step()) != nil {
		return
	}
	switch {
	case p.rewrites && p.listReason.Rewrites():
		reason = p.listReason
	case p.rewrites:
		reason = p.rewritingReason()
	}
	p.relist(reason)
}

func (p *loop) markMissing() {
	p.listDue = true
	p.sync.missing.Store(true)
}

func (i *sharedInformer) rewritingReason() reflector.Reason {
	if reason := i.health.rewritingNow(); reason.Rewrites() {
		return reason
	}
	return reflector.ReasonUnreadable
}

// relistLosses requests a list if a rebuild of the file has lost objects of the collection. Any informer on the file
// may have made the rebuild.
func (p *loop) relistLosses(ctx context.Context) {
	n := p.lossesNow()
	if n == p.losses {
		return
	}
	p.losses = n
	klog.FromContext(ctx).Info("The store has lost objects; listing again", "type", p.o.ObjectDescription)
	p.listAgain(ctx, reflector.ReasonDamaged)
}

func (p *loop) lossesNow() int {
	if p.collection == nil {
		return 0
	}
	return p.collection.Losses()
}

// markPatience bounds how long markDue waits for the disk.
const markPatience = 5 * time.Second

// markDue stores the reason for a due list, so that the next process lists if this one ends first. If the disk is full
// or hangs, markDue returns with the reason only in memory; the store keeps trying to commit it.
func (p *loop) markDue(ctx context.Context, reason reflector.Reason) error {
	attempt := func() (entry.Result, error) {
		waiting, cancel := context.WithTimeout(ctx, markPatience)
		defer cancel()
		err := p.store.SetMustRelist(waiting, string(reason))
		if err != nil && !needsRebuild(err) {
			if info, infoErr := p.store.Info(ctx); infoErr == nil && info.MustRelist == string(reason) {
				err = nil
			}
		}
		return entry.Result{}, err
	}
	return p.commit(ctx, attempt, func([]entry.Change) {})
}

func needsRebuild(err error) bool {
	return errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, entry.ErrDamaged)
}

// repair rebuilds the store's file from the readable records. If that loses objects, it requests a list and adds the
// lost keys to unseen: handlers get a delete for each lost key that the list lacks too.
func (p *loop) repair(ctx context.Context) error {
	if p.file == nil {
		return errors.New("the objects are in memory only: there is nothing to rebuild")
	}
	if p.list != nil {
		p.discardList(ctx)
	}
	before, err := p.store.Keys(ctx)
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "The keys of a damaged store cannot be read; deletes may be missed",
			"type", p.o.ObjectDescription)
	}
	if err := p.file.Rebuild(ctx); err != nil {
		p.unhealthy(ctx, fmt.Errorf("rebuild the store: %w", err))
		return err
	}
	after, err := p.store.Keys(ctx)
	if err != nil {
		return err
	}
	p.noteLost(before, after)
	info, err := p.store.Info(ctx)
	if err != nil {
		return err
	}
	p.losses = p.lossesNow()
	if !p.void && (info.MustRelist != "" || !info.Complete) { // void means that a list has been requested already
		p.listAgain(ctx, missingReason(info))
	}
	return nil
}

// noteLost adds to unseen (lost keys that handlers know) the keys in before that after lacks. Both slices are sorted.
func (p *loop) noteLost(before, after []string) {
	if p.unseen == nil {
		p.unseen = map[string]bool{}
	}
	for _, key := range before {
		for len(after) > 0 && after[0] < key {
			after = after[1:]
		}
		if len(after) == 0 || after[0] != key {
			p.unseen[key] = true
		}
	}
}

// unhealthy sets Status.Err because the store fails. It also logs, and calls the watch error handlers, if the store was
// healthy or the last failure was of another kind.
func (p *loop) unhealthy(ctx context.Context, err error) {
	err = fmt.Errorf("store of %s: %w", p.o.ObjectDescription, err)
	p.setStoreErr(err)
	kind := kindOf(err)
	if p.reported != nil && errors.Is(p.reported, kind) {
		return
	}
	p.reported = kind
	klog.FromContext(ctx).Error(err, "The store cannot be written; changes wait and reads serve the last good state",
		"type", p.o.ObjectDescription)
	p.reportError(ctx, err)
}

func kindOf(err error) error {
	for _, kind := range []error{store.ErrNoSpace, store.ErrReplaced, store.ErrOverwritten, store.ErrOutcomeUnknown,
		entry.ErrDamaged, store.ErrSlowDisk} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return errOther
}

var errOther = errors.New("another failure of the store")

func (p *loop) healthy(ctx context.Context) {
	if p.reported == nil {
		return
	}
	p.reported = nil
	p.setStoreErr(nil)
	p.indexer.ClearErr()
	klog.FromContext(ctx).Info("The store can be written again", "type", p.o.ObjectDescription)
}

func (i *sharedInformer) setStoreErr(err error) {
	i.health.setStoreErr(err)
	i.reviewSources()
}

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
