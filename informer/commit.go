package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

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
// holds deltasMu for both calls. Between attempts it releases deltasMu and waits. It returns an error only if ctx has
// ended or the run must end.
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

// persist repeats once, a write to the store, until it succeeds. It waits between attempts. It returns an error only if
// ctx has ended or the run must end.
func (p *loop) persist(ctx context.Context, once func() (entry.Result, error)) error {
	for delay := storeBackoff(); ; {
		res, err := once()
		p.due.Log()
		p.reportWrite(ctx)
		p.left(ctx, res.Skipped) // failed attempts report skipped objects too, and later attempts do not repeat them
		if err == nil {
			p.healthy(ctx)
			return nil
		}
		if ctx.Err() != nil || p.endsRun(err) {
			return err
		}
		p.unhealthy(ctx, err)
		if err := base.Sleep(ctx, p.clock, delay.Step()); err != nil {
			return err
		}
	}
}

// endsRun reports whether the run must end after err: the store is closed, or its file is damaged.
func (i *sharedInformer) endsRun(err error) bool {
	return isClosed(err) || i.file != nil && i.file.Err() != nil
}

func (p *loop) markMissing() {
	p.listDue = true
	p.sync.missing.Store(true)
}

// markPatience bounds how long markDue waits for the disk.
const markPatience = 5 * time.Second

// markDue stores the reason for a due list, so that the next process lists if this one ends first. If the disk is full,
// fails or hangs, markDue returns with the reason only in memory; the store keeps trying to commit it.
func (p *loop) markDue(ctx context.Context, reason reflector.Reason) error {
	attempt := func() (entry.Result, error) {
		waiting, cancel := context.WithTimeout(ctx, markPatience)
		defer cancel()
		err := p.store.SetMustRelist(waiting, string(reason))
		if err != nil && !p.endsRun(err) {
			if info, infoErr := p.store.Info(ctx); infoErr == nil && info.MustRelist == string(reason) {
				err = nil
			}
		}
		return entry.Result{}, err
	}
	return p.commit(ctx, attempt, func([]entry.Change) {})
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
// process loop reports a failed file.
func (i *sharedInformer) watchCommits(ctx context.Context) {
	if i.file == nil {
		return
	}
	for {
		next := i.file.Committed()
		err := i.file.CommitErr()
		if i.file.Err() != nil {
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
	if err == nil || ctx.Err() != nil || isClosed(err) || errors.Is(err, entry.ErrDamaged) {
		return
	}
	i.asks.ToReplace(err)
}

// watchFailure wakes the process loop when the file fails, which ends the run, and when a damaged record is found, so
// that a list replaces it without an event. It also wakes the process loop when a reader finds an object that this
// program cannot decode, and when the store is closed, which ends the run.
func (i *sharedInformer) watchFailure(ctx context.Context) {
	if i.file == nil {
		return
	}
	readers, damage := i.indexer.Failed(), i.file.DamageFound()
	var again <-chan time.Time
	for {
		select {
		case <-i.file.Failed():
		case <-damage:
		case <-again:
		case <-readers:
			if !errors.Is(i.indexer.Err(), entry.ErrIncompatible) {
				readers = nil // DamageFound and Failed report damage, and other errors need no list
				continue
			}
		case <-i.file.Closing():
		case <-ctx.Done():
			return
		}
		damage, again = i.file.DamageFound(), nil
		select {
		case <-i.asks.ToLook():
		case <-ctx.Done():
			return
		}
		readers = i.indexer.Failed()
		if i.mustListDamaged(ctx) {
			again = i.clock.After(unreadablePause) // the process loop may have skipped the request
		}
	}
}

// mustListDamaged reports whether the collection has damaged records, or has lost some.
func (i *sharedInformer) mustListDamaged(ctx context.Context) bool {
	info, err := i.store.Info(ctx)
	return err == nil && info.MustRelist == store.MustRelistDamaged
}

// look returns the error that ends the run if the store is closed or its file has failed. If a record is damaged, or a
// reader has found an object that this program cannot decode, it requests a list. Otherwise it clears the indexer's
// error.
func (p *loop) look(ctx context.Context) error {
	select {
	case <-p.file.Closing():
		return store.ErrClosed
	default:
	}
	if err := p.file.Err(); err != nil {
		return err
	}
	logger := klog.FromContext(ctx).WithValues("type", p.o.ObjectDescription, "collection", p.o.Identity.String())
	err := p.indexer.Err()
	switch {
	case p.mustListDamaged(ctx):
		if !p.sync.missing.Load() && p.list == nil && p.mayListUnreadable() {
			logger.Error(nil, "The store has damaged records; listing again")
			p.markMissing()
			p.relist(reflector.ReasonDamaged)
		}
		return nil
	case errors.Is(err, entry.ErrIncompatible) && !p.listDue && p.mayListUnreadable():
		logger.Error(err, "A reader has met a stored object that cannot be read; listing again")
		p.listUnreadable()
	}
	p.indexer.ClearErr()
	return nil
}

// unreadablePause is the least time between lists for unreadable objects.
const unreadablePause = time.Minute

// mayListUnreadable reports whether unreadable objects may cause a list now. One such list replaces them all, so a
// second one means that the codec is inconsistent or the disk bad: they back off from a minute to an hour. A reader
// that finds such an object later causes the request again.
func (p *loop) mayListUnreadable() bool {
	now := p.clock.Now()
	if now.Before(p.unreadableUntil) {
		return false
	}
	if p.unreadablePause == nil {
		p.unreadablePause = &wait.Backoff{Duration: unreadablePause, Factor: 2, Jitter: 0.2, Steps: 10, Cap: time.Hour}
	}
	p.unreadableUntil = now.Add(p.unreadablePause.Step())
	return true
}
