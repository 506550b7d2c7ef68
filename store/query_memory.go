package store

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Select returns the objects that q selects, in key order; see Interface.
func (m *Memory) Select(ctx context.Context, q Query) ([]runtime.Object, error) {
	objs := []runtime.Object{}
	err := m.eachOf(ctx, q, func(_ string, obj runtime.Object) error {
		objs = append(objs, obj)
		return nil
	})
	return objs, err
}

// Each calls fn for each object that q selects, in key order; see Interface.
func (m *Memory) Each(ctx context.Context, q Query, fn func(key string, obj runtime.Object) error) error {
	return m.eachOf(ctx, q, fn)
}

// eachOf goes through the objects as they are now: they are shared, and so a copy of the list is cheap.
func (m *Memory) eachOf(ctx context.Context, q Query, fn func(key string, obj runtime.Object) error) error {
	match := newMatcher(q, !isCustomKeyFunc(m.keyFunc))
	keys, objs := m.between(q.After, match.prefix)
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

// between returns the keys with the prefix that are after the given one, and their objects.
func (m *Memory) between(after, prefix string) ([]string, []runtime.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := m.keysLocked()
	from, found := slices.BinarySearch(keys, max(after, prefix))
	if found && after >= prefix {
		from++
	}
	keys = keys[from:]
	for i, key := range keys {
		if !strings.HasPrefix(key, prefix) {
			keys = keys[:i]
			break
		}
	}
	keys = slices.Clone(keys)
	return keys, m.getLocked(keys)
}
