package memtable

import (
	"sync"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// Table is what a collection has been given and its file does not have yet: each key's newest state and its index
// terms, and what covers them, an I. Readers look here first and then in the file. A commit takes a Snapshot, and what
// has not been written over since leaves the table when it is in the file.
type Table[I any] struct {
	mu   sync.RWMutex
	tree *btree.BTree[*Write] // by key; guarded by mu
	// a clone of tree as it is, for readers; nil if there is none; guarded by mu
	shared  *btree.BTree[*Write]
	index   map[string]map[string]map[string]struct{} // name, value, keys of what is in tree; guarded by mu
	info    I                                         // after the newest batch, while dirty; guarded by mu
	dirty   bool                                      // guarded by mu
	bytes   int                                       // of tree; guarded by mu
	batches uint64                                    // that were put; guarded by mu
	newest  uint64                                    // Order of the newest write; guarded by mu
	behind  uint64                                    // that of the newest write that is committed; guarded by mu
	epoch   uint64                                    // grows with each snapshot, and when it leaves; guarded by mu
}

// degree of the tree: a few hundred nodes for the 4 MiB that a commit takes.
const degree = 16

// New returns an empty table.
func New[I any]() *Table[I] {
	o := &Table[I]{}
	o.resetLocked()
	return o
}

func (o *Table[I]) resetLocked() {
	o.tree = btree.New(degree, func(a, b *Write) bool { return a.Key < b.Key })
	o.shared, o.index = nil, map[string]map[string]map[string]struct{}{}
	var none I
	o.info, o.dirty, o.bytes = none, false, 0
}

// Put takes in the last write of each key of a batch, and what covers them: update makes it of the one before, if that
// is not in the file. It returns by how many bytes the table has grown. also is called before readers and commits can
// see it.
func (o *Table[I]) Put(last []*Write, update func(before I, dirty bool) I, also func()) (grown int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	also()
	before := o.bytes
	for _, x := range last {
		if old, had := o.tree.Get(x); had {
			x.Follow(old)
			x.after(o.behind)
			x.SameObject = x.SameObject && old.SameObject
			o.forgetLocked(old)
		}
		o.newest = max(o.newest, x.Order)
		o.tree.ReplaceOrInsert(x)
		o.bytes += x.Size()
		o.indexLocked(x)
	}
	o.shared = nil
	o.info, o.dirty = update(o.info, o.dirty), true
	o.batches++
	return o.bytes - before
}

func (o *Table[I]) forgetLocked(x *Write) {
	o.bytes -= x.Size()
	for name, values := range x.Terms {
		for _, value := range values {
			keys := o.index[name][value]
			if delete(keys, x.Key); len(keys) == 0 {
				delete(o.index[name], value)
			}
		}
	}
}

func (o *Table[I]) indexLocked(x *Write) {
	if x.Del {
		return
	}
	for name, values := range x.Terms {
		index := o.index[name]
		if index == nil {
			index = map[string]map[string]struct{}{}
			o.index[name] = index
		}
		for _, value := range values {
			if index[value] == nil {
				index[value] = map[string]struct{}{}
			}
			index[value][x.Key] = struct{}{}
		}
	}
}

// Snapshot returns what is to be written; it is Idle if there is nothing.
func (o *Table[I]) Snapshot() *Snapshot[I] {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dirty {
		return &Snapshot[I]{tree: o.sharedLocked(), batches: o.batches, Idle: true}
	}
	o.epoch++
	return &Snapshot[I]{tree: o.sharedLocked(), Info: o.info, batches: o.batches, behind: o.behind, newest: o.newest}
}

// sharedLocked returns the tree as it is now. The caller has mu for writing if shared is nil.
func (o *Table[I]) sharedLocked() *btree.BTree[*Write] {
	if o.shared == nil {
		o.shared = o.tree.Clone()
	}
	return o.shared
}

// Committed lets go of what the file has now. It returns by how many bytes the table has shrunk, and
// whether nothing is left.
func (o *Table[I]) Committed(s *Snapshot[I]) (shrunk int, clean bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.bytes
	o.behind = s.newest
	o.epoch++ // the file may be written without the memtable now: a view of what leaves must not be laid over that
	if o.batches == s.batches {
		o.resetLocked()
		return before, true
	}
	s.tree.Ascend(func(x *Write) bool {
		if now, ok := o.tree.Get(x); ok && now == x {
			o.tree.Delete(x)
			o.forgetLocked(x)
		}
		return true
	})
	o.shared = nil
	return before - o.bytes, false
}

// Drop empties the table, and returns how many bytes that was.
func (o *Table[I]) Drop() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.bytes
	o.epoch++
	o.resetLocked()
	return n
}

// Current returns what covers the newest batch, if it is not in the file yet.
func (o *Table[I]) Current() (info I, dirty bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.info, o.dirty
}

// Size is how many bytes are pending.
func (o *Table[I]) Size() int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.bytes
}

// Correct replaces what Current returns, unless the file has that already.
func (o *Table[I]) Correct(update func(I) I) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dirty {
		o.info = update(o.info)
	}
}

// Get returns what is pending for key, or nil.
func (o *Table[I]) Get(key string) *Write {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return getWrite(o.tree, key)
}

func getWrite(tree *btree.BTree[*Write], key string) *Write {
	if tree.Len() == 0 {
		return nil
	}
	x, _ := tree.Get(&Write{Key: key})
	return x
}

// All returns everything that is pending, in key order.
func (o *Table[I]) All() []*Write { return o.Capture(nil, func() {}).After("", 0) }
