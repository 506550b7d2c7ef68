package engine

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/larder-dev/larder/entry"
)

// ResidentTable holds objects in memory with their indexes, safe for concurrent use. A call sees whole batches only.
type ResidentTable struct {
	mu      sync.RWMutex
	items   map[string]residentItem        // mu guards items, the objects by key.
	order   *btree.BTree[*row]             // mu guards order, the rows in key order.
	indexes map[string]map[string]*posting // mu guards indexes, the postings by index name and value.
}

// residentItem holds the object beside its row, so that a read by key needs only one memory access, as in client-go's
// map.
type residentItem struct {
	obj runtime.Object
	row *row
}

// row is the table's entry of one key. Successive states of the object use the same row, so an update with unchanged
// index terms touches no index. ResidentTable.mu guards now and obj.
type row struct {
	key string
	now *ResidentObject
	obj runtime.Object // obj is a copy of now.Obj, which saves a List one memory access per object.
}

// ResidentObject is an object in the table at one resourceVersion, with its index terms. It is immutable.
type ResidentObject struct {
	Obj     runtime.Object
	UID, RV string
	Terms   map[string][]string
}

func (s *ResidentObject) is(ref entry.ObjectRef) bool {
	return s.UID == ref.UID && s.RV == ref.ResourceVersion
}

const tableDegree = 32

// NewResidentTable returns an empty table.
func NewResidentTable() *ResidentTable {
	t := &ResidentTable{}
	t.clearLocked()
	return t
}

func (t *ResidentTable) clearLocked() {
	t.items, t.order = map[string]residentItem{}, btree.New(tableDegree, byKey)
	t.indexes = map[string]map[string]*posting{}
}

func byKey(a, b *row) bool { return a.key < b.key }

// Apply applies the last write of each key. All writes become visible at once.
func (t *ResidentTable) Apply(last []*Write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.applyLocked(last)
}

func (t *ResidentTable) applyLocked(last []*Write) {
	for _, x := range last {
		if x.Del {
			t.remove(x.Key)
		} else {
			t.put(x.Key, &ResidentObject{Obj: x.Obj, UID: x.UID, RV: x.RV, Terms: x.Terms})
		}
	}
}

func (t *ResidentTable) put(key string, s *ResidentObject) {
	e := t.items[key].row
	if e == nil {
		e = &row{key: key, now: &ResidentObject{}}
		t.order.ReplaceOrInsert(e)
	}
	if !sameTerms(e.now.Terms, s.Terms) {
		t.unfile(e, e.now.Terms)
		t.file(e, s.Terms)
	}
	e.now, e.obj = s, s.Obj
	t.items[key] = residentItem{s.Obj, e}
}

func (t *ResidentTable) remove(key string) {
	if e := t.items[key].row; e != nil {
		delete(t.items, key)
		t.order.Delete(e)
		t.unfile(e, e.now.Terms)
	}
}

func (t *ResidentTable) file(e *row, terms map[string][]string) {
	for name, values := range terms {
		index := t.indexes[name]
		if index == nil {
			index = map[string]*posting{}
			t.indexes[name] = index
		}
		for _, value := range values {
			if index[value] == nil {
				index[value] = &posting{}
			}
			index[value].add(e)
		}
	}
}

func (t *ResidentTable) unfile(e *row, terms map[string][]string) {
	for name, values := range terms {
		index := t.indexes[name]
		for _, value := range values {
			if p := index[value]; p != nil && p.remove(e) {
				delete(index, value)
			}
		}
	}
}

// sameTerms reports whether a and b are equal. Their values are sorted and unique.
func sameTerms(a, b map[string][]string) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]string])
}

// Get returns the object of key, or nil.
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

// Len returns the number of objects.
func (t *ResidentTable) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.items)
}

// List returns every object, in key order.
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

// Keys returns every key, sorted.
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

// IndexKeys returns the keys with the value in the index, sorted.
func (t *ResidentTable) IndexKeys(index, value string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p := t.indexes[index][value]
	keys := make([]string, 0, p.len())
	p.each(func(e *row) { keys = append(keys, e.key) })
	return keys
}

// IndexValues returns the values in the index, sorted.
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

// MoreTerms holds the index terms of newly added index functions, by object state and index name.
type MoreTerms map[*ResidentObject]map[string][]string

// MoreTerms returns the terms of all objects. It computes them with termsOf, which it calls under no lock. termsOf
// omits an index whose function fails.
func (t *ResidentTable) MoreTerms(termsOf func(key string, obj any) map[string][]string) MoreTerms {
	var keys []string
	var states []*ResidentObject
	t.Each("", func(key string, s *ResidentObject) bool {
		keys, states = append(keys, key), append(states, s)
		return true
	})
	terms := make(MoreTerms, len(states))
	for i, s := range states {
		terms[s] = termsOf(keys[i], s.Obj)
	}
	return terms
}

// AddTerms adds the terms in a to the objects of the table, for the indexes in names. If a has no terms for the current
// state of some object, it changes nothing and returns false. It replaces existing terms of these indexes: a failed
// earlier attempt to add the index functions may have left them.
func (t *ResidentTable) AddTerms(names []string, a MoreTerms) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	complete := true
	t.eachLocked("", func(e *row) bool {
		_, complete = a[e.now]
		return complete
	})
	if !complete {
		return false
	}
	for _, name := range names {
		delete(t.indexes, name)
	}
	t.eachLocked("", func(e *row) bool {
		next := *e.now
		more := a[e.now]
		next.Terms = maps.Clone(next.Terms)
		if next.Terms == nil {
			next.Terms = make(map[string][]string, len(more))
		}
		for _, name := range names {
			delete(next.Terms, name)
		}
		maps.Copy(next.Terms, more)
		e.now = &next
		t.file(e, more)
		return true
	})
	return true
}

// postingFew is the maximum number of entries in the slice of a posting, where each addition may move all of them.
const postingFew = 256

// posting holds the entries with one value in an index, in key order.
type posting struct {
	few  []*row
	many *btree.BTree[*row] // many replaces the slice few for more than postingFew entries.
}

func (p *posting) add(e *row) {
	if p.many != nil {
		p.many.ReplaceOrInsert(e)
		return
	}
	at, found := p.find(e)
	if found {
		return
	}
	p.few = slices.Insert(p.few, at, e)
	if len(p.few) > postingFew {
		p.many = btree.New(tableDegree, byKey)
		for _, e := range p.few {
			p.many.ReplaceOrInsert(e)
		}
		p.few = nil
	}
}

// remove removes the entry e of an object, and reports whether the posting is empty now.
func (p *posting) remove(e *row) (empty bool) {
	if p.many != nil {
		p.many.Delete(e)
		return p.many.Len() == 0
	}
	if at, found := p.find(e); found {
		p.few = slices.Delete(p.few, at, at+1)
	}
	return len(p.few) == 0
}

func (p *posting) find(e *row) (at int, found bool) {
	return slices.BinarySearchFunc(p.few, e, func(a, b *row) int { return strings.Compare(a.key, b.key) })
}

func (p *posting) len() int {
	switch {
	case p == nil:
		return 0
	case p.many != nil:
		return p.many.Len()
	}
	return len(p.few)
}

func (p *posting) each(fn func(e *row)) {
	switch {
	case p == nil:
	case p.many != nil:
		p.many.Ascend(func(e *row) bool {
			fn(e)
			return true
		})
	default:
		for _, e := range p.few {
			fn(e)
		}
	}
}
