package store

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
	"github.com/larder-dev/larder/store/query"
)

// residents holds the decoded objects of a collection in memory, with their indexes. It implements the methods of
// Reader; each call sees the objects at one moment.
type residents struct {
	in    *intake // the intake of the collection
	mu    sync.RWMutex
	table *resident.Table // guarded by mu, except for reads by key through in.hot
	shown bool            // true if in.hot has the table's KeyMap, except while several keys change; guarded by mu
}

// applyLocked applies the last write of each key. All become visible at once: if there are several, reads by key wait.
func (r *residents) applyLocked(last []*memtable.Write) {
	if r.shown && len(last) > 1 {
		r.in.hot.Store(nil)
		defer r.in.hot.Store(r.table.ByKey)
	}
	for _, x := range last {
		if x.Del {
			r.table.Remove(x.Key)
		} else {
			r.table.Put(x.Key, &resident.State{Obj: x.Obj, UID: x.UID, RV: x.RV, Terms: x.Terms})
		}
	}
}

// showLocked makes reads by key use the table without a lock.
func (r *residents) showLocked() {
	r.shown = true
	r.in.hot.Store(r.table.ByKey)
}

// rows returns every row of the table.
func (r *residents) rows() (rows []*resident.Row) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.table.Each("", func(e *resident.Row) bool {
		rows = append(rows, e)
		return true
	})
	return rows
}

// addTerms calls Table.AddTerms under the lock.
func (r *residents) addTerms(added *index.Set, terms resident.MoreTerms) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.table.AddTerms(added.Names(), terms)
}

// Get returns the object with that key, or nil if there is none.
func (r *residents) Get(ctx context.Context, key string) (runtime.Object, error) {
	if hot := r.in.hot.Load(); hot != nil {
		return hot.Object(key), ctx.Err()
	}
	r.mu.RLock() // several keys are being changed
	defer r.mu.RUnlock()
	return r.table.Get(key), ctx.Err()
}

// Keys returns every key, in order.
func (r *residents) Keys(ctx context.Context) ([]string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.table.Keys(), ctx.Err()
}

// List returns every object, in key order.
func (r *residents) List(ctx context.Context) ([]runtime.Object, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.table.List(), ctx.Err()
}

// Iterate calls fn for each object whose key follows after; see Interface.
func (r *residents) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	return iteratePages(ctx, after, r.page, fn)
}

func (r *residents) page(_ context.Context, after string) (p page) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p.keys, p.objs, p.more = r.table.Page(after, iterateObjects)
	return p
}

// Refs returns the identities of the objects whose keys follow after; see Interface.
func (r *residents) Refs(ctx context.Context, after string, limit int) (refs []entry.ObjectRef, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.table.Each(after, func(e *resident.Row) bool {
		now := e.Now.Load()
		refs = append(refs, entry.ObjectRef{Key: e.Key, UID: now.UID, ResourceVersion: now.RV})
		return len(refs) < limit
	})
	return refs, ctx.Err()
}

// ByIndex returns the objects that the named index files under value, in key order.
func (r *residents) ByIndex(ctx context.Context, index, value string) ([]runtime.Object, error) {
	return r.byValues(ctx, index, []string{value})
}

func (r *residents) byValues(ctx context.Context, index string, values []string) ([]runtime.Object, error) {
	if _, err := r.in.indexFunc(index); err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.table.ByValues(index, values), ctx.Err()
}

// IndexKeys returns the keys of ByIndex.
func (r *residents) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	if _, err := r.in.indexFunc(index); err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.table.IndexKeys(index, value), ctx.Err()
}

// IndexValues returns every value of the named index, in order.
func (r *residents) IndexValues(ctx context.Context, index string) ([]string, error) {
	if _, err := r.in.indexFunc(index); err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.table.IndexValues(index), ctx.Err()
}

// Select returns the objects that q selects, in key order; see Interface.
func (r *residents) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	objs := []runtime.Object{}
	err := r.Each(ctx, q, func(_ string, obj runtime.Object) error {
		objs = append(objs, obj)
		return nil
	})
	return objs, err
}

// Each calls fn for each object that q selects, in key order; see Interface. All objects are of one moment: it copies
// the list first, which is cheap since objects are shared.
func (r *residents) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	match := q.Matcher(!isCustomKeyFunc(r.in.keyFunc))
	keys, objs := r.between(q.After, match.Prefix)
	n := 0
	for i, key := range keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		ok, err := match.Object(objs[i])
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := fn(key, objs[i]); err != nil {
			return err
		}
		if n++; n == q.Limit {
			break
		}
	}
	return ctx.Err()
}

func (r *residents) between(after, prefix string) ([]string, []runtime.Object) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.table.Between(after, prefix)
}
