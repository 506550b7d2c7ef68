package resident

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// The methods that read a whole table at a moment; the caller holds its owner's lock, for reading.

// List returns every object, in key order.
func (t *Table) List() []runtime.Object {
	objs := make([]runtime.Object, 0, t.Len())
	t.Order.Ascend(func(e *Row) bool {
		objs = append(objs, e.Obj)
		return true
	})
	return objs
}

// Keys returns every key, in order.
func (t *Table) Keys() []string {
	keys := make([]string, 0, t.Len())
	t.Each("", func(e *Row) bool {
		keys = append(keys, e.Key)
		return true
	})
	return keys
}

// Page returns the objects whose keys follow the given one, up to a limit.
func (t *Table) Page(after string, limit int) (keys []string, objs []runtime.Object, more bool) {
	t.Each(after, func(e *Row) bool {
		keys, objs = append(keys, e.Key), append(objs, e.Obj)
		more = len(keys) == limit
		return !more
	})
	return keys, objs, more
}

// ByValues returns the objects filed under any of the values, each once.
func (t *Table) ByValues(index string, values []string) []runtime.Object {
	if len(values) == 1 {
		p := t.indexes[index][values[0]]
		objs := make([]runtime.Object, 0, p.len())
		p.each(func(e *Row) { objs = append(objs, e.Obj) })
		return objs
	}
	objs, seen := []runtime.Object{}, map[*Row]bool{}
	for _, value := range values {
		t.indexes[index][value].each(func(e *Row) {
			if !seen[e] {
				seen[e] = true
				objs = append(objs, e.Obj)
			}
		})
	}
	return objs
}

// IndexKeys returns the keys that the index files under value, in order.
func (t *Table) IndexKeys(index, value string) []string {
	p := t.indexes[index][value]
	keys := make([]string, 0, p.len())
	p.each(func(e *Row) { keys = append(keys, e.Key) })
	return keys
}

// IndexValues returns the values of the index, in order.
func (t *Table) IndexValues(index string) []string {
	values := slices.Sorted(maps.Keys(t.indexes[index]))
	if values == nil {
		return []string{}
	}
	return values
}

// Between returns the keys with the prefix that are after the given one, and their objects.
func (t *Table) Between(after, prefix string) (keys []string, objs []runtime.Object) {
	t.Order.AscendGreaterOrEqual(&Row{Key: max(after, prefix)}, func(e *Row) bool {
		if !strings.HasPrefix(e.Key, prefix) {
			return false
		}
		if e.Key != after {
			keys, objs = append(keys, e.Key), append(objs, e.Obj)
		}
		return true
	})
	return keys, objs
}
