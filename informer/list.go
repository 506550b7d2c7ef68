package informer

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/store"
)

// beginList opens a Replacement.
func (p *pump) beginList(ctx context.Context, s listStart) error {
	p.abortList()
	p.void = false
	return p.commit(ctx, func() (store.Result, error) {
		info, err := p.store.Info(ctx)
		if err != nil {
			return store.Result{}, err
		}
		list, err := p.store.BeginReplace(ctx, s.options)
		if err == nil {
			p.list, p.cold, p.rewrites, p.listBegun = list, !info.Complete, s.options.Rewrite, true
		}
		return store.Result{}, err
	}, p.tellListed)
}

// takePage takes in a page. In a cold start it is stored at once and the handlers hear of it.
func (p *pump) takePage(ctx context.Context, pg page) error {
	return p.take(ctx, func() (store.Result, error) {
		items := pg.items
		for _, key := range pg.failed {
			// Listed, but its transform failed: what is stored stands in for it. Left out of
			// the list it would count as deleted.
			obj, err := p.store.Get(ctx, key)
			if err != nil {
				return store.Result{}, err
			}
			if obj != nil {
				items = append(items, obj)
			}
		}
		return p.list.Page(ctx, items)
	})
}

// foldIn takes in changes that happened while the list was paged. Bookmarks are covered by the end of the list.
func (p *pump) foldIn(ctx context.Context, deltas []fifo.Delta) error {
	for _, d := range deltas {
		op, ok := opOf(d)
		if !ok {
			continue
		}
		err := p.take(ctx, func() (store.Result, error) { return p.list.Event(ctx, op) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pump) take(ctx context.Context, attempt func() (store.Result, error)) error {
	if p.cold { // else it is written when the list ends
		attempt = p.observed(attempt)
	}
	return p.commit(ctx, p.unlessVoid(func() (store.Result, error) {
		res, err := attempt()
		if p.cold && errors.Is(err, store.ErrOutcomeUnknown) {
			p.retell = true
		}
		return res, err
	}), p.tellListed)
}

// unlessVoid does nothing if the list was given up, by a repair after an earlier attempt too.
func (p *pump) unlessVoid(attempt func() (store.Result, error)) func() (store.Result, error) {
	return func() (store.Result, error) {
		if p.list == nil {
			return store.Result{}, nil
		}
		return attempt()
	}
}

func (p *pump) tellListed(changes []store.Change, redone bool) { p.tell(changes, p.rewrites || redone) }

// finishList commits the list. Deletes are told first, as in client-go.
func (p *pump) finishList(ctx context.Context, resourceVersion string) error {
	known := p.knownKeys(ctx)
	attempt := p.unlessVoid(p.observed(func() (store.Result, error) {
		res, err := p.list.Commit(ctx, store.Batch{ResourceVersion: resourceVersion, LastContact: p.contactTime()})
		if errors.Is(err, store.ErrOutcomeUnknown) {
			p.retell = true
			p.noteLost(known, nil)
		}
		return res, err
	}))
	return p.commit(ctx, attempt, func(changes []store.Change, redone bool) {
		if p.list == nil {
			return
		}
		p.list, p.lacking, p.pause = nil, false, nil
		if p.rewrites {
			p.setRewriting("")
			p.indexer.Mended() // bodies that could not be read are gone
		}
		deleted, rest := split(changes)
		again := p.toldAgain(ctx, changes)
		p.tellListed(append(deleted, p.unseenDeletes(ctx)...), redone)
		p.tellListed(rest, redone)
		p.tell(again, true)
		p.rewrites = false
	})
}

func split(changes []store.Change) (deleted, rest []store.Change) {
	for _, c := range changes {
		if c.Type == cache.Deleted {
			deleted = append(deleted, c)
		} else {
			rest = append(rest, c)
		}
	}
	return deleted, rest
}

// unseenDeletes returns the deletes of objects that a repair lost and that the list did not bring back.
func (p *pump) unseenDeletes(ctx context.Context) (out []store.Change) {
	for key := range p.unseen {
		if obj, err := p.store.Get(ctx, key); err == nil && obj == nil {
			out = append(out, store.Change{Type: cache.Deleted, Key: key})
		}
	}
	clear(p.unseen)
	return out
}

// knownKeys are the keys that handlers know before a list is committed. They are needed if it is not known
// afterwards what the commit has removed; a store in memory has no such doubts.
func (p *pump) knownKeys(ctx context.Context) []string {
	if p.rebuild == nil || p.list == nil {
		return nil
	}
	keys, err := p.store.Keys(ctx)
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "The stored keys can not be read; deletes may be missed if the list can not be stored", "type", p.o.ObjectDescription)
	}
	return keys
}

// toldAgain returns every stored object but those of changes if retell is set: the handlers may not have been told of them.
func (p *pump) toldAgain(ctx context.Context, changes []store.Change) (out []store.Change) {
	if !p.retell {
		return nil
	}
	p.retell = false
	told := make(map[string]bool, len(changes))
	for _, c := range changes {
		told[c.Key] = true
	}
	unreadable, err := p.eachStored(ctx, "", func(key string, obj runtime.Object) error {
		switch {
		case told[key]:
		case p.unseen[key]:
			out = append(out, store.Change{Type: cache.Updated, Key: key, Old: obj, New: obj})
		default:
			out = append(out, store.Change{Type: cache.Added, Key: key, New: obj})
		}
		return nil
	})
	p.due.add(func() {
		p.reportUnreadable(ctx, unreadable)
		if err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Handlers may have missed changes: the store can not be read", "type", p.o.ObjectDescription)
		}
	})
	return out
}

// abortList forgets the list that is being taken in, if any.
func (p *pump) abortList() {
	if p.list != nil {
		p.list.Abort()
		p.list = nil
	}
}
