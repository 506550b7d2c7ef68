package resident

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// Table is objects in memory with their indexes. One goroutine writes at a time, and any number read: each method that
// reads more than one key sees the table before a batch or after it.
type Table struct {
	byKey *KeyMap
	// keyed has byKey for reads by key that take no lock, while shown is true and no batch of several keys is applied.
	keyed *atomic.Pointer[KeyMap]

	mu      sync.RWMutex
	shown   bool                           // guarded by mu
	order   *btree.BTree[*row]             // by key; guarded by mu
	indexes map[string]map[string]*posting // name, value; guarded by mu
}

// row is one key. Its states follow each other in place, so that an update which keeps the terms touches no index.
type row struct {
	key string
	now atomic.Pointer[State]
	// slot is the row's place in the base of Table.byKey; nil if it has none. Guarded by the KeyMap's mu.
	slot *slot
	obj  runtime.Object // that of now, for those who have the table's lock: one step less for each object of a list
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

func (s *State) is(ref entry.ObjectRef) bool { return s.UID == ref.UID && s.RV == ref.ResourceVersion }

const tableDegree = 32

// NewTable returns an empty table, which readers by key find in keyed from now on.
func NewTable(keyed *atomic.Pointer[KeyMap]) *Table {
	t := hiddenTable(keyed)
	t.showLocked()
	return t
}

func hiddenTable(keyed *atomic.Pointer[KeyMap]) *Table {
	t := &Table{keyed: keyed}
	t.clearLocked()
	return t
}

// clearLocked forgets all objects.
func (t *Table) clearLocked() {
	t.byKey, t.order, t.indexes = newKeyMap(), btree.New(tableDegree, byKey), map[string]map[string]*posting{}
}

func byKey(a, b *row) bool { return a.key < b.key }

// showLocked makes reads by key use the table without a lock.
func (t *Table) showLocked() {
	t.shown = true
	t.keyed.Store(t.byKey)
}

// Apply applies the last write of each key. All become visible at once: if there are several, reads by key wait.
func (t *Table) Apply(last []*memtable.Write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.applyLocked(last)
}

func (t *Table) applyLocked(last []*memtable.Write) {
	if t.shown && len(last) > 1 {
		t.keyed.Store(nil)
		defer t.keyed.Store(t.byKey)
	}
	for _, x := range last {
		if x.Del {
			t.remove(x.Key)
		} else {
			t.put(x.Key, &State{Obj: x.Obj, UID: x.UID, RV: x.RV, Terms: x.Terms})
		}
	}
}

// put makes s the state of key and reports whether the key is new.
func (t *Table) put(key string, s *State) (added bool) {
	e := t.byKey.load(key)
	if e != nil {
		if old := e.now.Load(); old != nil {
			t.byKey.update(e, s)
			e.obj = s.Obj
			if !sameTerms(old.Terms, s.Terms) {
				t.unfile(e, old.Terms)
				t.file(e, s.Terms)
			}
			return false
		}
		t.byKey.revive(e, s)
	} else {
		e = &row{key: key}
		e.now.Store(s)
		t.byKey.add(e)
	}
	e.obj = s.Obj
	t.order.ReplaceOrInsert(e)
	t.file(e, s.Terms)
	return true
}

// remove forgets key and reports whether it was there.
func (t *Table) remove(key string) bool {
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
	t.unfile(e, old.Terms)
	return true
}

func (t *Table) file(e *row, terms map[string][]string) {
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

func (t *Table) unfile(e *row, terms map[string][]string) {
	for name, values := range terms {
		index := t.indexes[name]
		for _, value := range values {
			if p := index[value]; p != nil && p.remove(e) {
				delete(index, value)
			}
		}
	}
}

// sameTerms compares terms, whose values are in order, each once.
func sameTerms(a, b map[string][]string) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]string])
}
