package store

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Get returns the object with that key, or nil if there is none.
func (m *Memory) Get(ctx context.Context, key string) (runtime.Object, error) {
	if hot := m.hot.Load(); hot != nil {
		return hot.Object(key), ctx.Err()
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.table.Get(key), ctx.Err()
}

// Keys returns every key, in order.
func (m *Memory) Keys(ctx context.Context) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.table.Keys(), ctx.Err()
}

// List returns every object, in key order.
func (m *Memory) List(ctx context.Context) ([]runtime.Object, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.table.List(), ctx.Err()
}

// Iterate calls fn for each object whose key is after the given one; see Interface.
func (m *Memory) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	return iteratePages(ctx, after, m.page, fn)
}

func (m *Memory) page(_ context.Context, after string) (p page) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p.keys, p.objs, p.more = m.table.Page(after, iterateObjects)
	return p
}

// ByIndex returns the objects that the named index files under value, in key order.
func (m *Memory) ByIndex(ctx context.Context, index, value string) ([]runtime.Object, error) {
	return m.byValues(ctx, index, []string{value})
}

// IndexKeys returns the keys of ByIndex.
func (m *Memory) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.set.find(index); err != nil {
		return nil, err
	}
	return m.table.IndexKeys(index, value), ctx.Err()
}

// IndexValues returns every value of the named index, in order.
func (m *Memory) IndexValues(ctx context.Context, index string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.set.find(index); err != nil {
		return nil, err
	}
	return m.table.IndexValues(index), ctx.Err()
}

func (m *Memory) byValues(ctx context.Context, index string, values []string) ([]runtime.Object, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.set.find(index); err != nil {
		return nil, err
	}
	return m.table.ByValues(index, values), ctx.Err()
}
