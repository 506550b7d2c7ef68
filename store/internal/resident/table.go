package resident

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/larder-dev/larder/entry"
)

// Table is objects in memory with their indexes. Its owner guards it with a lock, but for get, which needs none: it
// finds each state once it has been put, and a List under the lock that comes later has that state or a newer one.
type Table struct {
	ByKey   *KeyMap
	Order   *btree.BTree[*Row]             // by key
	indexes map[string]map[string]*posting // name, value
}

// Row is one key. Its states follow each other in place, so that an update which keeps the terms touches no index.
type Row struct {
	Key string
	Now atomic.Pointer[State]
	// slot is the row's place in the base of Table.ByKey; nil if it has none. Guarded by the KeyMap's mu.
	slot *slot
	Obj  runtime.Object // that of now, for those who have the owner's lock: one step less for each object of a list
}

// State is one state of an object. It is never changed.
type State struct {
	Obj     runtime.Object
	UID, RV string
	Terms   map[string][]string
}

// Object returns the object, or nil if s is nil.
func (s *State) Object() runtime.Object {
	if s == nil {
		return nil
	}
	return s.Obj
}

// Is reports whether it is the state that ref names.
func (s *State) Is(ref entry.ObjectRef) bool { return s.UID == ref.UID && s.RV == ref.ResourceVersion }

const tableDegree = 32

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{
		ByKey:   newKeyMap(),
		Order:   btree.New(tableDegree, byKey),
		indexes: map[string]map[string]*posting{},
	}
}

func byKey(a, b *Row) bool { return a.Key < b.Key }

// Get returns the object of key, or nil. It takes no lock.
func (t *Table) Get(key string) runtime.Object { return t.ByKey.Object(key) }

// State returns the state of key, or nil.
func (t *Table) State(key string) *State {
	return t.ByKey.State(key)
}

// Put makes s the state of key and reports whether the key is new.
func (t *Table) Put(key string, s *State) (added bool) {
	e := t.ByKey.load(key)
	if e != nil {
		if old := e.Now.Load(); old != nil {
			t.ByKey.update(e, s)
			e.Obj = s.Obj
			if !sameTerms(old.Terms, s.Terms) {
				t.unfile(e, old.Terms)
				t.file(e, s.Terms)
			}
			return false
		}
		t.ByKey.revive(e, s)
	} else {
		e = &Row{Key: key}
		e.Now.Store(s)
		t.ByKey.add(e)
	}
	e.Obj = s.Obj
	t.Order.ReplaceOrInsert(e)
	t.file(e, s.Terms)
	return true
}

// Remove forgets key and reports whether it was there.
func (t *Table) Remove(key string) bool {
	e := t.ByKey.load(key)
	if e == nil {
		return false
	}
	old := t.ByKey.remove(e)
	if old == nil {
		return false
	}
	e.Obj = nil
	t.Order.Delete(e)
	t.unfile(e, old.Terms)
	return true
}

// Len returns the number of objects.
func (t *Table) Len() int { return t.Order.Len() }

// Each calls fn with the entries whose keys follow the given one, in order, until it returns false.
func (t *Table) Each(after string, fn func(e *Row) bool) {
	t.Order.AscendGreaterOrEqual(&Row{Key: after}, func(e *Row) bool {
		return e.Key == after || fn(e)
	})
}

func (t *Table) file(e *Row, terms map[string][]string) {
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

func (t *Table) unfile(e *Row, terms map[string][]string) {
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
