package store

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/third_party/forked/golang/btree"
)

// table is objects in memory with their indexes. Its owner guards it with a lock, but for get, which needs none: it
// finds each state once it has been put, and a List under the lock that comes later has that state or a newer one.
type table struct {
	byKey   *keyMap
	order   *btree.BTree[*row]             // by key
	indexes map[string]map[string]*posting // name, value
}

// row is one key. Its states follow each other in place, so that an update which keeps the terms touches no index.
type row struct {
	key string
	now atomic.Pointer[rowState]
	// slot is the one in the base of the table's keyMap, if it has the key; guarded by the keyMap's mu.
	slot *slot
	obj  runtime.Object // that of now, for those who have the owner's lock: one step less for each object of a list
}

// rowState is one state of an object. It is never changed.
type rowState struct {
	obj     runtime.Object
	uid, rv string
	terms   map[string][]string
}

// object returns the object, or nil of a nil *rowState.
func (s *rowState) object() runtime.Object {
	if s == nil {
		return nil
	}
	return s.obj
}

const tableDegree = 32

func newTable() *table {
	return &table{
		byKey:   newKeyMap(),
		order:   btree.New(tableDegree, byKey),
		indexes: map[string]map[string]*posting{},
	}
}

func byKey(a, b *row) bool { return a.key < b.key }

// get returns the object of key, or nil. It takes no lock.
func (t *table) get(key string) runtime.Object { return t.byKey.object(key) }

// state returns the state of key, or nil.
func (t *table) state(key string) *rowState {
	return t.byKey.state(key)
}

// put makes s the state of key and reports whether the key is new.
func (t *table) put(key string, s *rowState) (added bool) {
	e := t.byKey.load(key)
	if e != nil {
		if old := e.now.Load(); old != nil {
			t.byKey.update(e, s)
			e.obj = s.obj
			if !sameTerms(old.terms, s.terms) {
				t.unfile(e, old.terms)
				t.file(e, s.terms)
			}
			return false
		}
		t.byKey.revive(e, s)
	} else {
		e = &row{key: key}
		e.now.Store(s)
		t.byKey.add(e)
	}
	e.obj = s.obj
	t.order.ReplaceOrInsert(e)
	t.file(e, s.terms)
	return true
}

// remove forgets key and reports whether it was there.
func (t *table) remove(key string) bool {
	e := t.byKey.load(key)
	if e == nil {
		return false
	}
	old := t.byKey.remove(e)
	if old == nil {
		return false
	}
	e.obj = nil
	t.order.Delete(e)
	t.unfile(e, old.terms)
	return true
}

func (t *table) len() int { return t.order.Len() }

// each calls fn with the entries whose keys follow the given one, in order, until it returns false.
func (t *table) each(after string, fn func(e *row) bool) {
	t.order.AscendGreaterOrEqual(&row{key: after}, func(e *row) bool {
		return e.key == after || fn(e)
	})
}

func (t *table) file(e *row, terms map[string][]string) {
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

func (t *table) unfile(e *row, terms map[string][]string) {
	for name, values := range terms {
		index := t.indexes[name]
		for _, value := range values {
			if p := index[value]; p != nil && p.remove(e) {
				delete(index, value)
			}
		}
	}
}

// sameTerms compares what indexValues returns: values in order, each once.
func sameTerms(a, b map[string][]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, values := range a {
		others := b[name]
		if len(values) != len(others) {
			return false
		}
		for i, value := range values {
			if value != others[i] {
				return false
			}
		}
	}
	return true
}
