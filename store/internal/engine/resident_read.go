package engine

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
)

func (t *ResidentTable) Get(key string) runtime.Object {
	t.mu.RLock()
	obj := t.items[key].obj
	t.mu.RUnlock()
	return obj
}

// State returns the object of key with its identity and its index terms, or nil.
func (t *ResidentTable) State(key string) *ResidentObject {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e := t.items[key].row; e != nil {
		return e.now
	}
	return nil
}

// Each locks the table and calls fn with the objects whose keys follow after, in order, until fn returns false.
func (t *ResidentTable) Each(after string, fn func(key string, s *ResidentObject) bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.eachLocked(after, func(e *row) bool { return fn(e.key, e.now) })
}

func (t *ResidentTable) eachLocked(after string, fn func(e *row) bool) {
	t.order.AscendGreaterOrEqual(&row{key: after}, func(e *row) bool {
		return e.key == after || fn(e)
	})
}

func (t *ResidentTable) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.items)
}

func (t *ResidentTable) List() []runtime.Object {
	t.mu.RLock()
	defer t.mu.RUnlock()
	objs := make([]runtime.Object, 0, len(t.items))
	t.order.Ascend(func(e *row) bool {
		objs = append(objs, e.obj)
		return true
	})
	return objs
}

func (t *ResidentTable) Keys() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	keys := make([]string, 0, len(t.items))
	t.order.Ascend(func(e *row) bool {
		keys = append(keys, e.key)
		return true
	})
	return keys
}

// Page returns at most limit objects whose keys follow after, and whether more may follow.
func (t *ResidentTable) Page(after string, limit int) (keys []string, objs []runtime.Object, more bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.eachLocked(after, func(e *row) bool {
		keys, objs = append(keys, e.key), append(objs, e.obj)
		more = len(keys) == limit
		return !more
	})
	return keys, objs, more
}

// Between returns the keys after the key after that begin with prefix, and their objects.
func (t *ResidentTable) Between(after, prefix string) (keys []string, objs []runtime.Object) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.order.AscendGreaterOrEqual(&row{key: max(after, prefix)}, func(e *row) bool {
		if !strings.HasPrefix(e.key, prefix) {
			return false
		}
		if e.key != after {
			keys, objs = append(keys, e.key), append(objs, e.obj)
		}
		return true
	})
	return keys, objs
}

// ByValues returns the objects that have one of the values in the index, each object once.
func (t *ResidentTable) ByValues(index string, values []string) []runtime.Object {
	t.mu.RLock()
	defer t.mu.RUnlock()
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

func (t *ResidentTable) IndexKeys(index, value string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p := t.indexes[index][value]
	keys := make([]string, 0, p.len())
	p.each(func(e *row) { keys = append(keys, e.key) })
	return keys
}

func (t *ResidentTable) IndexValues(index string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	values := slices.AppendSeq([]string{}, maps.Keys(t.indexes[index]))
	slices.Sort(values)
	return values
}

// ClearDiffering compares refs, a page of the file's references, with the table. It clears the UID and resourceVersion
// of each reference whose object differs or is missing in the table. It adds cleared references for objects that only
// the table has. refs are the references after the key after, sorted by key, at most limit; the result has the same
// form.
func (t *ResidentTable) ClearDiffering(refs []entry.ObjectRef, after string, limit int) []entry.ObjectRef {
	var out []entry.ObjectRef
	t.Each(after, func(key string, s *ResidentObject) bool {
		for len(refs) > 0 && refs[0].Key < key {
			out, refs = append(out, entry.ObjectRef{Key: refs[0].Key}), refs[1:]
		}
		ref := entry.ObjectRef{Key: key}
		if len(refs) > 0 && refs[0].Key == key {
			if s.is(refs[0]) {
				ref = refs[0]
			}
			refs = refs[1:]
		}
		out = append(out, ref)
		return len(out) < limit
	})
	for _, ref := range refs {
		out = append(out, entry.ObjectRef{Key: ref.Key})
	}
	return out[:min(len(out), limit)]
}
