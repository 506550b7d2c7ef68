package engine

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"

	"github.com/larder-dev/larder/store/query"
)

// ResidentReader reads the decoded objects of a collection in memory. It implements the methods of store.Reader except
// Info. Each call sees one snapshot of the objects.
type ResidentReader struct {
	Table *ResidentTable
	Set   *atomic.Pointer[IndexSet]
	// CustomKeys is true if keys may have another form than namespace/name.
	CustomKeys bool
}

func (r ResidentReader) Get(ctx context.Context, key string) (runtime.Object, error) {
	return r.Table.Get(key), ctx.Err()
}

func (r ResidentReader) Keys(ctx context.Context) ([]string, error) { return r.Table.Keys(), ctx.Err() }

func (r ResidentReader) List(ctx context.Context) ([]runtime.Object, error) {
	return r.Table.List(), ctx.Err()
}

func (r ResidentReader) Iterate(
	ctx context.Context, after string, fn func(key string, obj runtime.Object) error,
) error {
	return IteratePages(ctx, after, r.Page, fn)
}

func (r ResidentReader) Page(_ context.Context, after string) (p Page) {
	p.Keys, p.Objs, p.More = r.Table.Page(after, PageObjects)
	if p.More {
		p.Last = p.Keys[len(p.Keys)-1]
	}
	return p
}

func (r ResidentReader) Refs(ctx context.Context, after string, limit int) (refs []entry.ObjectRef, err error) {
	r.Table.Each(after, func(key string, now *ResidentObject) bool {
		refs = append(refs, entry.ObjectRef{Key: key, UID: now.UID, ResourceVersion: now.RV})
		return len(refs) < limit
	})
	return refs, ctx.Err()
}

func (r ResidentReader) ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error) {
	if _, err := r.Set.Load().Find(index); err != nil {
		return nil, err
	}
	return r.Table.ByValues(index, values), ctx.Err()
}

func (r ResidentReader) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	if _, err := r.Set.Load().Find(index); err != nil {
		return nil, err
	}
	return r.Table.IndexKeys(index, value), ctx.Err()
}

func (r ResidentReader) IndexValues(ctx context.Context, index string) ([]string, error) {
	if _, err := r.Set.Load().Find(index); err != nil {
		return nil, err
	}
	return r.Table.IndexValues(index), ctx.Err()
}

func (r ResidentReader) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	objs := []runtime.Object{}
	err := r.Each(ctx, q, func(_ string, obj runtime.Object) error {
		objs = append(objs, obj)
		return nil
	})
	return objs, err
}

// Each calls fn for each object that q selects, in key order; see store.Interface. All objects are from one snapshot:
// Each copies the list first, which is cheap because objects are shared.
func (r ResidentReader) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	match := q.Matcher(!r.CustomKeys)
	keys, objs := r.Table.Between(q.After, match.Prefix)
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
