package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/query"
)

// Get returns the object with that key, or nil if there is none.
func (c *Collection) Get(ctx context.Context, key string) (runtime.Object, error) {
	return c.core.Get(ctx, key)
}

// Info returns the collection's state.
func (c *Collection) Info(ctx context.Context) (entry.Info, error) { return c.core.Info(ctx) }

// List returns every object, in key order.
func (c *Collection) List(ctx context.Context) ([]runtime.Object, error) { return c.core.List(ctx) }

// Keys returns every key, in order.
func (c *Collection) Keys(ctx context.Context) ([]string, error) { return c.core.Keys(ctx) }

// Iterate calls fn for each object whose key follows after, in key order. If objects are being loaded into memory, it
// waits for the end of the load, so that they are decoded once. It does not wait for a commit.
func (c *Collection) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	return c.core.Iterate(ctx, after, fn)
}

// ByIndex returns the objects that have any of the values in the named index; see Reader.
func (c *Collection) ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error) {
	return c.core.ByIndex(ctx, index, values...)
}

// IndexKeys returns the keys of the objects that have the value in the named index; see Reader.
func (c *Collection) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	return c.core.IndexKeys(ctx, index, value)
}

// IndexValues returns every value of the named index, in order.
func (c *Collection) IndexValues(ctx context.Context, index string) ([]string, error) {
	return c.core.IndexValues(ctx, index)
}

// Select returns the objects that q selects, in key order.
func (c *Collection) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	return c.core.Select(ctx, q)
}

// Each calls fn for each object that q selects, in key order; see Reader.
func (c *Collection) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	return c.core.Each(ctx, q, fn)
}

// Refs returns the identities of at most limit objects whose keys follow after, in key order; see Interface.
func (c *Collection) Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error) {
	return c.core.Refs(ctx, after, limit)
}

// View reads the committed state of one collection of a Store, whether the collection is open or not. It has no index
// functions, but uses the indexes that are ready in the file. Each method reads one consistent state. If the collection
// is sealed and the store has no keys, methods that need an object or an index fail with seal.ErrSealed.
type View struct {
	read  engine.Reader
	store *Store
	id    entry.Identity
}

// View opens a collection for reading, with unstructured objects; use ViewWith for typed objects in protobuf. View
// fails with ErrNoCollection if there is no such collection.
func (s *Store) View(ctx context.Context, id entry.Identity) (*View, error) {
	codec, err := codec.View(id.Representation, nil)
	if err != nil {
		return nil, err
	}
	return s.ViewWith(ctx, id, codec)
}

// ViewWith opens a collection for reading and decodes objects with the caller's codec, such as the codec that wrote the
// collection, or the result of codec.View for it.
func (s *Store) ViewWith(ctx context.Context, id entry.Identity, codec codec.Codec) (*View, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	v := &View{read: s.reader(id.ID(), codec), store: s, id: id}
	if _, err := v.read.Info(ctx); err != nil {
		return nil, fmt.Errorf("view %s in %s: %w", id, s.Path(), err)
	}
	return v, nil
}

// Info returns the collection's state.
func (v *View) Info(ctx context.Context) (entry.Info, error) { return v.read.Info(ctx) }

// Get returns the object with that key, or nil if there is none.
func (v *View) Get(ctx context.Context, key string) (runtime.Object, error) {
	return v.read.Get(ctx, key)
}

// List returns every object, in key order.
func (v *View) List(ctx context.Context) ([]runtime.Object, error) { return v.read.List(ctx) }

// Keys returns every key, in order.
func (v *View) Keys(ctx context.Context) ([]string, error) { return v.read.Keys(ctx) }

// Iterate calls fn for each object whose key follows after; see Reader.
func (v *View) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	return v.read.Iterate(ctx, after, fn)
}

// Select returns the objects that q selects, in key order.
func (v *View) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	return v.read.Select(ctx, q)
}

// Each calls fn for each object that q selects, in key order; see Reader.
func (v *View) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	return v.read.Each(ctx, q, fn)
}

// ByIndex returns the objects that have one of the values in the named index, in key order for each value. It fails
// with ErrNoIndex if the file has no such index, or the index is not built yet.
func (v *View) ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error) {
	return v.indexes().ByIndex(ctx, index, values...)
}

// IndexKeys returns the keys of the objects that have the value in the named index, in order. It fails as ByIndex does.
func (v *View) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	return v.indexes().IndexKeys(ctx, index, value)
}

// IndexValues returns every value of the named index, in order.
func (v *View) IndexValues(ctx context.Context, index string) ([]string, error) {
	return v.indexes().IndexValues(ctx, index)
}

func (v *View) indexes() engine.IndexReader { return v.lookUp }

// lookUp calls fn with the index, or fails with ErrNoIndex if the index is not ready in that transaction.
func (v *View) lookUp(ctx context.Context, want engine.Lookup, fn func(engine.IndexView) error) error {
	return v.read.View(ctx, func(b *bolt.Bucket) error {
		st, err := engine.GetState(b, v.read.Name)
		if err != nil {
			return err
		}
		if !st.Indexes[want.Index].Ready {
			return fmt.Errorf("index %q of %s: %w", want.Index, v.id, ErrNoIndex)
		}
		if st.Sealed && v.read.Coder.Locked() {
			return fmt.Errorf("index %q of %s: %w", want.Index, v.id, v.store.keys.ErrSealed())
		}
		i, err := v.read.IndexView(b, want.Index, st.Sealed, &engine.Captured{})
		if err != nil {
			return err
		}
		return fn(i)
	})
}
