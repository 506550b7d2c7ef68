package store

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// The methods that read a whole table at a moment; the caller holds its owner's lock, for reading.

func (t *table) list() []runtime.Object {
	objs := make([]runtime.Object, 0, t.len())
	t.order.Ascend(func(e *row) bool {
		objs = append(objs, e.obj)
		return true
	})
	return objs
}

func (t *table) keys() []string {
	keys := make([]string, 0, t.len())
	t.each("", func(e *row) bool {
		keys = append(keys, e.key)
		return true
	})
	return keys
}

// page returns the objects whose keys follow the given one, up to a limit.
func (t *table) page(after string, limit int) (p page) {
	t.each(after, func(e *row) bool {
		p.keys, p.objs = append(p.keys, e.key), append(p.objs, e.obj)
		p.more = len(p.keys) == limit
		return !p.more
	})
	return p
}

// byValues returns the objects filed under any of the values, each once.
func (t *table) byValues(index string, values []string) []runtime.Object {
	if len(values) == 1 {
		p := t.indexes[index][values[0]]
		objs := make([]runtime.Object, 0, p.len())
		p.each(func(e *row) { objs = append(objs, e.obj) })
		return objs
	}
	objs, seen := []runtime.Object{}, map[*row]bool{}
	for _, value := range values {
		t.indexes[index][value].each(func(e *row) {
			if !seen[e] {
				seen[e] = true
				objs = append(objs, e.obj)
			}
		})
	}
	return objs
}

func (t *table) indexKeys(index, value string) []string {
	p := t.indexes[index][value]
	keys := make([]string, 0, p.len())
	p.each(func(e *row) { keys = append(keys, e.key) })
	return keys
}

func (t *table) indexValues(index string) []string {
	values := slices.Sorted(maps.Keys(t.indexes[index]))
	if values == nil {
		return []string{}
	}
	return values
}
