package memory

import (
	"context"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/indexer"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/query"
)

// Collection is a collection that is kept in memory only. It implements store.Interface; make one with New.
type Collection struct{ core *engine.Collection }

var _ store.Interface = (*Collection)(nil)

// New returns an empty collection. Of the options it uses KeyFunc, Indexers, IndexVersions and Resource. It fails if
// the identity is not valid, or an index has no name or function.
func New(id entry.Identity, o store.CollectionOptions) (*Collection, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	set, err := engine.NewIndexSet(o.Indexers, o.IndexVersions)
	if err != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, err)
	}
	m := &Collection{core: engine.NewCollection(id, engine.Reader{}, o.KeyFunc)}
	m.core.Resource, m.core.Limits = o.Resource, engine.ReplaceLimits{Held: math.MaxInt, Step: math.MaxInt}
	m.core.OpenInMemory(set)
	return m, nil
}

// Info returns the collection's state; see store.Interface.
func (m *Collection) Info(ctx context.Context) (entry.Info, error) { return m.core.Info(ctx) }

// Get returns the object with this key, or nil if there is none.
func (m *Collection) Get(ctx context.Context, key string) (runtime.Object, error) {
	return m.core.Get(ctx, key)
}

// List returns every object, in key order.
func (m *Collection) List(ctx context.Context) ([]runtime.Object, error) { return m.core.List(ctx) }

// Keys returns every key, sorted.
func (m *Collection) Keys(ctx context.Context) ([]string, error) { return m.core.Keys(ctx) }

// Iterate calls fn for each object whose key follows after; see store.Interface.
func (m *Collection) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	return m.core.Iterate(ctx, after, fn)
}

// Select returns the objects that q selects, in key order; see store.Interface.
func (m *Collection) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	return m.core.Select(ctx, q)
}

// Each calls fn for each object that q selects, in key order; see store.Interface. All objects are from one snapshot.
func (m *Collection) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	return m.core.Each(ctx, q, fn)
}

// ByIndex returns the objects that have one of the values in the named index, each once.
func (m *Collection) ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error) {
	return m.core.ByIndex(ctx, index, values...)
}

// IndexKeys returns the keys of the objects that have the value in the named index.
func (m *Collection) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	return m.core.IndexKeys(ctx, index, value)
}

// IndexValues returns every value in the named index, sorted.
func (m *Collection) IndexValues(ctx context.Context, index string) ([]string, error) {
	return m.core.IndexValues(ctx, index)
}

// Indexers returns the index functions. The map is the caller's.
func (m *Collection) Indexers() cache.Indexers { return m.core.Indexers() }

// Apply applies the batch; see store.Interface.
func (m *Collection) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	return m.core.Apply(ctx, b)
}

// BeginReplace begins a list; see store.Interface.
func (m *Collection) BeginReplace(ctx context.Context, o store.ReplaceOptions) (store.Replacement, error) {
	r, err := m.core.Begin(ctx, engine.ReplaceOptions(o))
	if err != nil {
		return nil, err // not r: a nil *Replacement in the interface would not equal nil
	}
	return r, nil
}

// SetMustRelist sets Info.MustRelist; see store.Interface.
func (m *Collection) SetMustRelist(ctx context.Context, reason string) error {
	return m.core.MarkMustRelist(ctx, reason)
}

// Refs returns the identities of the objects whose keys follow after; see store.Interface.
func (m *Collection) Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error) {
	return m.core.Refs(ctx, after, limit)
}

// AddIndexers adds index functions; see store.Interface. Writers wait while it computes them for all objects.
func (m *Collection) AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error {
	return m.core.AddIndexers(ctx, indexers, versions)
}

// Indexer returns the collection as a cache.Indexer of client-go.
func (m *Collection) Indexer() *indexer.Indexer { return indexer.New(m.core) }
