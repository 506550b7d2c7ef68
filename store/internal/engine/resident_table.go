package engine

import (
	"maps"
	"slices"
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
