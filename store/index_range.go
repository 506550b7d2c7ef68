package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// A valueRange is the values from one to another. Values are compared by their
// bytes. The second is not part of it; if it is "", the range has no end.
type valueRange struct{ from, to string }

func (r valueRange) has(value string) bool {
	return value >= r.from && (r.to == "" || value < r.to)
}

// prefixRange is the values with a prefix.
func prefixRange(prefix string) valueRange {
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) > 0 {
		end[len(end)-1]++
	}
	return valueRange{from: prefix, to: string(end)}
}

// indexed is one entry of an index.
type indexed struct{ value, key string }

func compareIndexed(a, b indexed) int {
	return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.key, b.key))
}

// firstOf returns the keys of entries in order, each key where it comes first.
func firstOf(entries []indexed) []string {
	slices.SortFunc(entries, compareIndexed)
	keys, seen := make([]string, 0, len(entries)), make(map[string]bool, len(entries))
	for _, e := range entries {
		if !seen[e.key] {
			seen[e.key] = true
			keys = append(keys, e.key)
		}
	}
	return keys
}

// entries calls fn with those in the range, in no order. Literal values are in the order of the file. Hashed ones
// come after them and in none, so all of those are looked at; each has its value with it.
func (v indexView) entries(r valueRange, fn func(indexed)) error {
	for value, keys := range v.over.filed {
		for _, key := range keys {
			fn(indexed{value, key})
		}
	}
	s := scanAfter(v.index, "")
	end := []byte{tagHashed}
	if r.to != "" {
		end = literalPrefix(r.to)
	}
	k, val := s.seek(literalPrefix(r.from))
	for ; k != nil && bytes.Compare(k, end) < 0; k, val = s.next() {
		if err := v.entry(k, val, r, fn); err != nil {
			return err
		}
	}
	if k != nil {
		// The range ends here. If a flipped bit made it so, the next one is out of order: entries must not be
		// missing in silence.
		s.next()
	}
	if s.err != nil {
		return s.err
	}
	for k, val = s.seek([]byte{tagHashed}); k != nil; k, val = s.next() {
		if err := v.entry(k, val, r, fn); err != nil {
			return err
		}
	}
	return s.err
}

func (v indexView) entry(k, val []byte, r valueRange, fn func(indexed)) error {
	value, key, err := parseIndexEntry(k, val)
	if err != nil {
		return fmt.Errorf("index %q in collection %s: %w", v.name, v.r.name, err)
	}
	if r.has(value) && v.over.get(key) == nil {
		fn(indexed{value, key})
	}
	return nil
}

// objectsIn returns the objects filed in the range, each once.
func (v indexView) objectsIn(r valueRange) ([]runtime.Object, error) {
	objs := []runtime.Object{}
	if r.to != "" && r.to <= r.from {
		return objs, nil
	}
	var found []indexed
	if err := v.entries(r, func(e indexed) { found = append(found, e) }); err != nil {
		return nil, err
	}
	for _, key := range firstOf(found) {
		obj, err := v.object(key)
		if err != nil {
			return nil, err
		}
		objs = append(objs, obj)
	}
	return objs, nil
}

// IndexRange returns the objects that the named index files under values in a range; see Interface.
func (c *Collection) IndexRange(ctx context.Context, index, from, to string) ([]runtime.Object, error) {
	return c.inRange(ctx, index, valueRange{from, to})
}

// IndexPrefix returns the objects that the named index files under values with a prefix; see Interface.
func (c *Collection) IndexPrefix(ctx context.Context, index, prefix string) ([]runtime.Object, error) {
	return c.inRange(ctx, index, prefixRange(prefix))
}

func (c *Collection) inRange(ctx context.Context, index string, r valueRange) ([]runtime.Object, error) {
	if _, err := c.set.Load().find(index); err != nil {
		return nil, err
	}
	if err := c.ordered(index); err != nil {
		return nil, err
	}
	if m := c.inMemory(); m != nil {
		m.mu.RLock()
		defer m.mu.RUnlock()
		return m.table.inRange(index, r), ctx.Err()
	}
	var objs []runtime.Object
	var found []indexed
	byKey := map[string]runtime.Object{}
	err := c.lookUp(ctx, lookup{index: index, in: &r, objects: true}, func(v indexView) (err error) {
		objs, err = v.objectsIn(r)
		return err
	}, func(s scanned) {
		for _, value := range s.values {
			if r.has(value) {
				found, byKey[s.key] = append(found, indexed{value, s.key}), s.obj
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if objs == nil {
		objs = []runtime.Object{}
		for _, key := range firstOf(found) {
			objs = append(objs, byKey[key])
		}
	}
	return objs, nil
}

// IndexRange returns the objects that the named index files under values in a
// range, as Collection's does; like ByIndex it fails with ErrNoIndex if the file has no such index.
func (v *View) IndexRange(ctx context.Context, index, from, to string) ([]runtime.Object, error) {
	return v.inRange(ctx, index, valueRange{from, to})
}

// IndexPrefix is IndexRange for the values with a prefix.
func (v *View) IndexPrefix(ctx context.Context, index, prefix string) ([]runtime.Object, error) {
	return v.inRange(ctx, index, prefixRange(prefix))
}

func (v *View) inRange(ctx context.Context, index string, r valueRange) (objs []runtime.Object, err error) {
	err = v.lookUp(ctx, index, func(i indexView) (err error) {
		if i.sealed {
			return fmt.Errorf("index %q of %s: %w", index, v.id, ErrSealedIndex)
		}
		objs, err = i.objectsIn(r)
		return err
	})
	return objs, err
}

// IndexRange returns the objects that the named index files under values in a range; see Interface.
func (m *Memory) IndexRange(ctx context.Context, index, from, to string) ([]runtime.Object, error) {
	return m.inRange(ctx, index, valueRange{from, to})
}

// IndexPrefix returns the objects that the named index files under values with a prefix; see Interface.
func (m *Memory) IndexPrefix(ctx context.Context, index, prefix string) ([]runtime.Object, error) {
	return m.inRange(ctx, index, prefixRange(prefix))
}

func (m *Memory) inRange(ctx context.Context, index string, r valueRange) ([]runtime.Object, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.set.find(index); err != nil {
		return nil, err
	}
	return m.table.inRange(index, r), ctx.Err()
}

// inRange returns the objects filed in the range, each once.
func (t *table) inRange(index string, r valueRange) []runtime.Object {
	var found []indexed
	byKey := map[string]runtime.Object{}
	for value, p := range t.indexes[index] {
		if r.has(value) {
			p.each(func(e *row) { found, byKey[e.key] = append(found, indexed{value, e.key}), e.obj })
		}
	}
	objs := []runtime.Object{}
	for _, key := range firstOf(found) {
		objs = append(objs, byKey[key])
	}
	return objs
}
