package engine

import (
	"context"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/query"
)

// inMemory returns the objects in memory, or nil if reads must use the file. After CommitLoop.EndReads they fail.
func (c *Collection) inMemory() *Residents {
	if a := c.resident.Load(); a.IsOpen() && !c.Commits.Ended() {
		return a
	}
	return nil
}

// Remaining returns the objects in memory, even after the store was closed; nil if they are not the whole collection.
func (c *Collection) Remaining() *ResidentTable {
	if a := c.resident.Load(); a.IsOpen() {
		return a.ResidentTable
	}
	return nil
}

// source returns the reader of the objects in memory if all are there, and otherwise of the file and the memtable.
func (c *Collection) source() interface {
	List(ctx context.Context) ([]runtime.Object, error)
	Keys(ctx context.Context) ([]string, error)
	Select(ctx context.Context, q query.Query) ([]runtime.Object, error)
	Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error
	Page(ctx context.Context, after string) Page
} {
	if r := c.inMemory(); r != nil {
		return ResidentReader{Table: r.ResidentTable, CustomKeys: c.Read.CustomKeys}
	}
	return &c.Read
}

// Info returns the collection's state.
func (c *Collection) Info(ctx context.Context) (entry.Info, error) {
	if c.memory != nil {
		return c.memory.get(), ctx.Err()
	}
	return c.Read.Info(ctx)
}

// Get returns the object with that key, or nil if there is none.
func (c *Collection) Get(ctx context.Context, key string) (runtime.Object, error) {
	if r := c.inMemory(); r != nil {
		return r.Get(key), ctx.Err()
	}
	if err := c.closedErr(); err != nil {
		return nil, err
	}
	return c.Read.Get(ctx, key)
}

// List returns every object, in key order.
func (c *Collection) List(ctx context.Context) ([]runtime.Object, error) { return c.source().List(ctx) }

// Keys returns every key, in order.
func (c *Collection) Keys(ctx context.Context) ([]string, error) { return c.source().Keys(ctx) }

// Iterate calls fn for each object whose key follows after; see store.Collection.
func (c *Collection) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	if a := c.resident.Load(); a != nil {
		if err := a.AwaitRead(ctx); err != nil {
			return err
		}
	}
	pages := func(ctx context.Context, after string) Page { return c.source().Page(ctx, after) }
	return IteratePages(ctx, after, pages, fn)
}

// Select returns the objects that q selects, in key order.
func (c *Collection) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	return c.source().Select(ctx, q)
}

// Each calls fn for each object that q selects, in key order; see store.Reader.
func (c *Collection) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	return c.source().Each(ctx, q, fn)
}

// Refs returns the identities of at most limit objects whose keys follow after, in key order; see store.Interface.
func (c *Collection) Refs(ctx context.Context, after string, limit int) (refs []entry.ObjectRef, err error) {
	if c.memory != nil {
		c.resident.Load().Each(after, func(key string, now *ResidentObject) bool {
			refs = append(refs, entry.ObjectRef{Key: key, UID: now.UID, ResourceVersion: now.RV})
			return len(refs) < limit
		})
		return refs, ctx.Err()
	}
	if refs, err = c.Read.Refs(ctx, after, limit); err != nil {
		return nil, err
	}
	if r := c.inMemory(); r != nil {
		refs = r.ClearDiffering(refs, after, limit)
	}
	return refs, nil
}

// ByIndex returns the objects that have any of the values in the named index; see store.Reader.
func (c *Collection) ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error) {
	r, err := c.awaitIndex(ctx, index)
	switch {
	case err != nil:
		return nil, err
	case r != nil:
		return r.ByValues(index, values), ctx.Err()
	}
	return IndexReader(c.lookUp).ByIndex(ctx, index, values...)
}

// IndexKeys returns the keys of the objects that have the value in the named index; see store.Reader.
func (c *Collection) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	r, err := c.awaitIndex(ctx, index)
	switch {
	case err != nil:
		return nil, err
	case r != nil:
		return r.IndexKeys(index, value), ctx.Err()
	}
	return IndexReader(c.lookUp).IndexKeys(ctx, index, value)
}

// IndexValues returns every value of the named index, in order.
func (c *Collection) IndexValues(ctx context.Context, index string) ([]string, error) {
	r, err := c.awaitIndex(ctx, index)
	switch {
	case err != nil:
		return nil, err
	case r != nil:
		return r.IndexValues(index), ctx.Err()
	}
	return IndexReader(c.lookUp).IndexValues(ctx, index)
}

// lookUp calls fn in a read transaction with the ready index want.Index and the memtable's matching writes.
func (c *Collection) lookUp(ctx context.Context, want Lookup, fn func(IndexView) error) error {
	return c.Read.ViewMerged(ctx, &want, func(b *bolt.Bucket, over *Captured) error {
		v, err := c.Read.IndexView(b, want.Index, c.Read.Coder.Sealing(), over)
		if err != nil {
			return err
		}
		return fn(v)
	})
}
