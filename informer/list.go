package informer

import (
	"context"
	"maps"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
)

// beginList begins a list: it opens a store.Replacement, whose objects replace all stored objects when the list ends.
func (p *loop) beginList(ctx context.Context, s listStart) error {
	p.abortList()
	p.void = false
	p.sync.listBegun()
	return p.commit(ctx, func() (entry.Result, error) {
		info, err := p.store.Info(ctx)
		if err != nil {
			return entry.Result{}, err
		}
		if reflector.Reason(info.MustRelist).Lasts() {
			s.options.Rewrite = true // the end of a list clears every stored reason, so this list must rewrite too
		}
		list, err := p.store.BeginReplace(ctx, s.options)
		if err == nil {
			p.list, p.cold, p.rewrites, p.listBegun = list, !info.Complete, s.options.Rewrite, true
			p.listReason = s.reason
			p.auditor.ListBegun(s.reason == reflector.ReasonDamaged)
		}
		return entry.Result{}, err
	}, p.distributeListed)
}

// takePage stores a page of a list. In a cold start (no list was ever complete) it also distributes the page to the
// handlers.
func (p *loop) takePage(ctx context.Context, pg page) error {
	return p.take(ctx, func() (entry.Result, error) {
		return p.list.Page(ctx, pg.items, pg.leftOut...)
	})
}

// foldIn stores changes that arrive during the list. It skips bookmarks, because the end of the list has a higher
// resourceVersion.
func (p *loop) foldIn(ctx context.Context, deltas []fifo.Delta) error {
	for _, d := range deltas {
		op, ok := opOf(d)
		if !ok {
			continue
		}
		err := p.take(ctx, func() (entry.Result, error) { return p.list.Event(ctx, op) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *loop) take(ctx context.Context, attempt func() (entry.Result, error)) error {
	p.backpressure(ctx)
	return p.commit(ctx, p.unlessVoid(p.observed(attempt)), p.distributeListed)
}

// unlessVoid returns a function that calls attempt, unless a repair between attempts has aborted the list.
func (p *loop) unlessVoid(attempt func() (entry.Result, error)) func() (entry.Result, error) {
	return func() (entry.Result, error) {
		if p.list == nil {
			return entry.Result{}, nil
		}
		return attempt()
	}
}

func (p *loop) distributeListed(changes []entry.Change) { p.distribute(changes, true) }

// finishList commits the list. After each transaction it distributes that transaction's changes, because all changes
// may not fit in memory. Between transactions deltasMu is free, and the store has exactly the state that was
// distributed. The store applies deletes first, so handlers receive them first, as in client-go.
func (p *loop) finishList(ctx context.Context, resourceVersion string) error {
	for more := true; more && p.list != nil; {
		attempt := p.unlessVoid(p.observed(func() (entry.Result, error) {
			res, err := p.list.Commit(ctx, entry.Batch{ResourceVersion: resourceVersion, LastContact: p.contactTime()})
			more = res.More
			return res, err
		}))
		err := p.commit(ctx, attempt, func(changes []entry.Change) {
			switch {
			case p.list == nil:
			case more:
				p.distributeListed(changes)
			default:
				p.endList(ctx, changes)
			}
		})
		if err != nil {
			return err
		}
	}
	if p.list != nil || p.void {
		return nil
	}
	if p.cold && p.file != nil {
		p.sync.saving++
		p.savers.Go(func() { p.saveFirstList(ctx) })
	}
	p.auditor.ListEnded()
	if p.o.SyncPolicy == Disk {
		p.sync.complete()
	}
	return nil
}

// saveFirstList commits the first list, which is in the memtable, and then notifies the process loop, which may report
// the informer as synced. So a synced informer's first list survives a crash. It retries until ctx ends or the store is
// closed. Meanwhile the process loop continues, and repairs the file if it has failed.
func (p *loop) saveFirstList(ctx context.Context) {
	for delay := storeBackoff(); ; {
		err := p.file.Flush(ctx)
		switch {
		case err == nil:
			p.asks.ToNoteSaved()
			return
		case isClosed(err) || base.Sleep(ctx, p.clock, delay.Step()) != nil:
			return
		}
	}
}

// endList distributes the last changes of a committed list, and deletes of the objects that a repair has lost and that
// the list lacks too.
func (p *loop) endList(ctx context.Context, changes []entry.Change) {
	p.list, p.pause, p.listDue = nil, nil, false
	p.sync.missing.Store(false)
	if p.rewrites {
		p.health.setRewriting("")
		p.indexer.ClearErr() // the list has replaced the unreadable bodies
	}
	deleted, rest := split(changes)
	p.distributeListed(deleted)
	p.distribute(p.unseenDeletes(ctx), true)
	p.distributeListed(rest)
	clear(p.unseen)
	p.rewrites = false
}

func split(changes []entry.Change) (deleted, rest []entry.Change) {
	for _, c := range changes {
		if c.Type == cache.Deleted {
			deleted = append(deleted, c)
		} else {
			rest = append(rest, c)
		}
	}
	return deleted, rest
}

func (p *loop) unseenDeletes(ctx context.Context) (out []entry.Change) {
	for _, key := range slices.Sorted(maps.Keys(p.unseen)) {
		if obj, err := p.store.Get(ctx, key); err == nil && obj == nil {
			out = append(out, entry.Change{Type: cache.Deleted, Key: key})
			delete(p.unseen, key)
		}
	}
	return out
}

func (p *loop) abortList() {
	if p.list != nil {
		p.list.Abort()
		p.list = nil
		p.auditor.ListGivenUp()
	}
}
