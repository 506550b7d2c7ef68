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
