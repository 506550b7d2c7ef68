package store

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Select returns the objects that q selects, in key order; see Interface.
func (m *Memory) Select(ctx context.Context, q Query) ([]runtime.Object, error) {
	return selectMemory(ctx, q, !isCustomKeyFunc(m.keyFunc), m.between)
}

// Each calls fn for each object that q selects, in key order; see Interface.
func (m *Memory) Each(ctx context.Context, q Query, fn func(key string, obj runtime.Object) error) error {
	return eachInMemory(ctx, q, !isCustomKeyFunc(m.keyFunc), m.between, fn)
}

func (m *Memory) between(after, prefix string) ([]string, []runtime.Object) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.table.Between(after, prefix)
}

// between reads the objects as they are now, as resident.Table.Between does.
type between func(after, prefix string) ([]string, []runtime.Object)

func selectMemory(ctx context.Context, q Query, namespaced bool, read between) ([]runtime.Object, error) {
	objs := []runtime.Object{}
	err := eachInMemory(ctx, q, namespaced, read, func(_ string, obj runtime.Object) error {
		objs = append(objs, obj)
		return nil
	})
	return objs, err
}

// eachInMemory goes through the objects as they are now: they are shared, and so a copy of the list is cheap.
func eachInMemory(
	ctx context.Context, q Query, namespaced bool, read between, fn func(key string, obj runtime.Object) error,
) error {
	match := newMatcher(q, namespaced)
	keys, objs := read(q.After, match.prefix)
	n := 0
	for i, key := range keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		ok, err := match.object(objs[i])
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
