package resident

import (
	"hash/maphash"
	"math/bits"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
)

// slots is a hash table of rows whose keys do not change, for readers that take no lock. Each slot has the object
// itself: one that is read often is a line of memory or two away, and not four as through a map, the row and its state.
// What it costs where a heap is large is the pages that the processor has no translation for.
type slots struct {
	seed maphash.Seed
	all  []slot
	rows int // how many were put in
}

// slot is one key. The zero value is free.
type slot struct {
	key string
	row *row
	// obj is the object of the row's state. All that it is ever given have one type.
	obj atomic.Value
	tag uint32 // of the key's hash, so that other keys need not be looked at
	// stale: obj is not that of the row any more, and will not be again.
	stale atomic.Bool
}

// newSlots returns a table for so many rows. Half of the slots, and one at least, stay free: a search looks at one and
// a half.
func newSlots(rows int) *slots {
	return &slots{seed: maphash.MakeSeed(), all: make([]slot, 2*rows+1)}
}

// place returns where the search for a key begins, and its tag.
func (s *slots) place(key string) (at int, tag uint32) {
	hash := maphash.String(s.seed, key)
	hi, _ := bits.Mul64(hash, uint64(len(s.all)))
	return int(hi), uint32(hash)
}

// find returns the slot of key, or nil.
func (s *slots) find(key string) *slot {
	at, tag := s.place(key)
	for {
		e := &s.all[at]
		if e.tag == tag && e.key == key {
			return e
		}
		if e.row == nil {
			return nil
		}
		if at++; at == len(s.all) {
			at = 0
		}
	}
}

// add puts in a row that has a state, and whose key is not there, before there are readers.
func (s *slots) add(r *row) {
	at, tag := s.place(r.key)
	for s.all[at].row != nil {
		if at++; at == len(s.all) {
			at = 0
		}
	}
	e := &s.all[at]
	e.key, e.row, e.tag = r.key, r, tag
	s.rows++
	r.slot = e
	e.set(r.now.Load().Obj)
}

// set gives the slot another object. One writer at a time.
func (e *slot) set(obj runtime.Object) {
	if e.stale.Load() {
		return
	}
	if before := e.obj.Load(); obj == nil || before != nil && reflect.TypeOf(before) != reflect.TypeOf(obj) {
		e.drop()
		return
	}
	e.obj.Store(obj)
}

// drop makes readers ask the row, and keeps no object from being collected.
func (e *slot) drop() {
	e.stale.Store(true) // first: who finds what comes now finds this too
	if before := e.obj.Load(); before != nil {
		e.obj.Store(reflect.Zero(reflect.TypeOf(before)).Interface())
	}
}

// object returns the object, or nil if the row has to be asked.
func (e *slot) object() any {
	obj := e.obj.Load()
	if e.stale.Load() {
		return nil
	}
	return obj
}
