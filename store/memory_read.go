package store

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Get returns the object with that key, or nil if there is none.
func (m *Memory) Get(ctx context.Context, key string) (runtime.Object, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.objects[key].object(), ctx.Err()
}

// Keys returns every key, in order.
func (m *Memory) Keys(ctx context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.keysLocked()...), ctx.Err()
}

// List returns every object, in key order.
func (m *Memory) List(ctx context.Context) ([]runtime.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.getLocked(m.keysLocked()), ctx.Err()
}

// Iterate calls fn for each object whose key is after the given one; see Interface.
func (m *Memory) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	for {
		keys, objs := m.page(after)
		for i, key := range keys {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(key, objs[i]); err != nil {
				return err
			}
		}
		if len(keys) < iterateObjects {
			return ctx.Err()
		}
		after = keys[len(keys)-1]
	}
}

func (m *Memory) page(after string) ([]string, []runtime.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := m.keysLocked()
	at, found := slices.BinarySearch(keys, after)
	if found {
		at++
	}
	keys = slices.Clone(keys[at:min(at+iterateObjects, len(keys))])
	return keys, m.getLocked(keys)
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
	return append([]string{}, slices.Sorted(maps.Keys(m.indexes[index][value]))...), ctx.Err()
}

// IndexValues returns every value of the named index, in order.
func (m *Memory) IndexValues(ctx context.Context, index string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.set.find(index); err != nil {
		return nil, err
	}
	return append([]string{}, slices.Sorted(maps.Keys(m.indexes[index]))...), ctx.Err()
}

func (m *Memory) byValues(ctx context.Context, index string, values []string) ([]runtime.Object, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.set.find(index); err != nil {
		return nil, err
	}
	keys := map[string]struct{}{}
	for _, value := range values {
		maps.Copy(keys, m.indexes[index][value])
	}
	return m.getLocked(slices.Sorted(maps.Keys(keys))), ctx.Err()
}

// getLocked returns the objects of keys that are there.
func (m *Memory) getLocked(keys []string) []runtime.Object {
	objs := make([]runtime.Object, len(keys))
	for i, key := range keys {
		objs[i] = m.objects[key].obj
	}
	return objs
}
