package store

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/intake"
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/resident"
	"github.com/larder-dev/larder/store/query"
)

// residents reads the decoded objects of a collection in memory. It implements the methods of Reader; each call sees
// the objects at one moment.
type residents struct {
	in    *intake.Intake // the intake of the collection
	table *resident.Table
}

// Get returns the object with that key, or nil if there is none.
func (r residents) Get(ctx context.Context, key string) (runtime.Object, error) {
	return r.table.Get(key), ctx.Err()
}

// Keys returns every key, in order.
func (r residents) Keys(ctx context.Context) ([]string, error) { return r.table.Keys(), ctx.Err() }

// List returns every object, in key order.
func (r residents) List(ctx context.Context) ([]runtime.Object, error) {
	return r.table.List(), ctx.Err()
}

// Iterate calls fn for each object whose key follows after; see Interface.
func (r residents) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	return read.IteratePages(ctx, after, r.Page, fn)
}

func (r residents) Page(_ context.Context, after string) (p read.Page) {
	p.Keys, p.Objs, p.More = r.table.Page(after, read.PageObjects)
	if p.More {
		p.Last = p.Keys[len(p.Keys)-1]
	}
	return p
}

// Refs returns the identities of the objects whose keys follow after; see Interface.
func (r residents) Refs(ctx context.Context, after string, limit int) (refs []entry.ObjectRef, err error) {
	r.table.Each(after, func(key string, now *resident.State) bool {
		refs = append(refs, entry.ObjectRef{Key: key, UID: now.UID, ResourceVersion: now.RV})
		return len(refs) < limit
	})
	return refs, ctx.Err()
}

// ByIndex returns the objects that the named index files under value, in key order.
func (r residents) ByIndex(ctx context.Context, index, value string) ([]runtime.Object, error) {
	return r.byValues(ctx, index, []string{value})
}

func (r residents) byValues(ctx context.Context, index string, values []string) ([]runtime.Object, error) {
	if _, err := r.in.IndexFunc(index); err != nil {
		return nil, err
	}
	return r.table.ByValues(index, values), ctx.Err()
}

// IndexKeys returns the keys of ByIndex.
func (r residents) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	if _, err := r.in.IndexFunc(index); err != nil {
		return nil, err
	}
	return r.table.IndexKeys(index, value), ctx.Err()
}

// IndexValues returns every value of the named index, in order.
func (r residents) IndexValues(ctx context.Context, index string) ([]string, error) {
	if _, err := r.in.IndexFunc(index); err != nil {
		return nil, err
	}
	return r.table.IndexValues(index), ctx.Err()
}

// Select returns the objects that q selects, in key order; see Interface.
func (r residents) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	objs := []runtime.Object{}
	err := r.Each(ctx, q, func(_ string, obj runtime.Object) error {
		objs = append(objs, obj)
		return nil
	})
	return objs, err
}

// Each calls fn for each object that q selects, in key order; see Interface. All objects are of one moment: it copies
// the list first, which is cheap since objects are shared.
func (r residents) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	match := q.Matcher(!read.CustomKeys(r.in.KeyFunc))
	keys, objs := r.table.Between(q.After, match.Prefix)
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
