package store

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/query"
)

// Get returns the object with that key, or nil if there is none.
func (c *Collection) Get(ctx context.Context, key string) (runtime.Object, error) {
	if r := c.inMemory(); r != nil {
		return r.Get(key), ctx.Err()
	}
	if err := c.closedErr(); err != nil {
		return nil, err
	}
	return c.read.Get(ctx, key)
}

// source returns the reader of the objects in memory if all are there, and otherwise of the file and the memtable.
func (c *Collection) source() interface {
	List(ctx context.Context) ([]runtime.Object, error)
	Keys(ctx context.Context) ([]string, error)
	Select(ctx context.Context, q query.Query) ([]runtime.Object, error)
	Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error
	Page(ctx context.Context, after string) engine.Page
} {
	if r := c.inMemory(); r != nil {
		return c.residents(r)
	}
	return &c.read
}

// Info returns the collection's state.
func (c *Collection) Info(ctx context.Context) (entry.Info, error) { return c.read.Info(ctx) }

// List returns every object, in key order.
func (c *Collection) List(ctx context.Context) ([]runtime.Object, error) {
	return c.source().List(ctx)
}

// Keys returns every key, in order.
func (c *Collection) Keys(ctx context.Context) ([]string, error) {
	return c.source().Keys(ctx)
}

// Iterate calls fn for each object whose key follows after, in key order. If objects are being loaded into memory, it
// waits for the end of the load, so that they are decoded once. It does not wait for a commit.
func (c *Collection) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	if a := c.resident.Load(); a != nil {
		if err := a.AwaitRead(ctx); err != nil {
			return err
		}
	}
	pages := func(ctx context.Context, after string) engine.Page { return c.source().Page(ctx, after) }
	return engine.IteratePages(ctx, after, pages, fn)
}

// ByIndex returns the objects that have any of the values in the named index; see Reader.
func (c *Collection) ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error) {
	r, err := c.awaitIndex(ctx, index)
	if err != nil {
		return nil, err
	}
	return r.ByIndex(ctx, index, values...)
}

// IndexKeys returns the keys of the objects that have the value in the named index; see Reader.
func (c *Collection) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	r, err := c.awaitIndex(ctx, index)
	if err != nil {
		return nil, err
	}
	return r.IndexKeys(ctx, index, value)
}

// IndexValues returns every value of the named index, in order.
func (c *Collection) IndexValues(ctx context.Context, index string) ([]string, error) {
	r, err := c.awaitIndex(ctx, index)
	if err != nil {
		return nil, err
	}
	return r.IndexValues(ctx, index)
}

// Select returns the objects that q selects, in key order.
func (c *Collection) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	return c.source().Select(ctx, q)
}

// Each calls fn for each object that q selects, in key order; see Reader.
func (c *Collection) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	return c.source().Each(ctx, q, fn)
}

// Refs returns the identities of at most limit objects whose keys follow after, in key order; see Interface.
func (c *Collection) Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error) {
	refs, err := c.read.Refs(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	if r := c.inMemory(); r != nil {
		refs = r.ClearDiffering(refs, after, limit)
	}
	return refs, nil
}
