package engine

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// Memtable is the memtable of a collection: the newest uncommitted write of each key, the index terms of these writes,
// and the Info after the newest batch, of type I. Readers look in the Memtable first and then in the file. A commit
// takes a MemtableSnapshot. After the commit, the table drops the committed writes, unless newer writes have replaced
// them.
type Memtable[I any] struct {
	mu   sync.RWMutex
	tree *btree.BTree[*Write] // tree has the newest write of each key; guarded by mu.
	// shared is a clone of tree for readers, or nil after a change of tree. mu guards shared.
	shared    *btree.BTree[*Write]
	index     map[string]map[string]map[string]struct{} // index has keys by index name and value; guarded by mu.
	info      I                                         // info is the Info after the newest batch; guarded by mu.
	dirty     bool                                      // dirty is true with uncommitted changes; guarded by mu.
	bytes     int                                       // bytes is the size of the writes; guarded by mu.
	batches   uint64                                    // batches is the number of batches put; guarded by mu.
	newest    uint64                                    // newest is the Write.Order of the newest write; guarded by mu.
	committed uint64                                    // committed is the newest committed Write.Order; guarded by mu.
	epoch     uint64                                    // epoch grows at Snapshot, Committed and Drop; guarded by mu.
}

// degree is the degree of the tree. The 4 MiB of a commit need a few hundred nodes.
const degree = 16

// NewMemtable returns an empty table.
func NewMemtable[I any]() *Memtable[I] {
	o := &Memtable[I]{}
	o.resetLocked()
	return o
}

func (o *Memtable[I]) resetLocked() {
	o.tree = btree.New(degree, func(a, b *Write) bool { return a.Key < b.Key })
	o.shared, o.index = nil, map[string]map[string]map[string]struct{}{}
	var none I
	o.info, o.dirty, o.bytes = none, false, 0
}

// Put adds a batch: last holds the last write of each key. update returns the Info that covers the batch. Its argument
// is the Info of the previous uncommitted batch, if dirty is true. Put returns the number of bytes by which the table
// has grown. It calls the function also before readers and commits can see the batch.
func (o *Memtable[I]) Put(last []*Write, update func(before I, dirty bool) I, also func()) (grown int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	also()
	before := o.bytes
	for _, x := range last {
		if old, had := o.tree.Get(x); had {
			x.Follow(old)
			x.dropCommitted(o.committed)
			x.SameObject = x.SameObject && old.SameObject
			o.removeLocked(old)
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

func (o *Memtable[I]) removeLocked(x *Write) {
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

func (o *Memtable[I]) indexLocked(x *Write) {
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

// Snapshot returns the uncommitted changes for a commit. If there are none, the Snapshot has Idle set.
func (o *Memtable[I]) Snapshot() *MemtableSnapshot[I] {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dirty {
		return &MemtableSnapshot[I]{tree: o.sharedLocked(), batches: o.batches, Idle: true}
	}
	o.epoch++
	return &MemtableSnapshot[I]{
		tree: o.sharedLocked(), Info: o.info, batches: o.batches, committed: o.committed, newest: o.newest,
	}
}

// sharedLocked returns an immutable clone of tree. The caller must hold mu for writing if shared is nil.
func (o *Memtable[I]) sharedLocked() *btree.BTree[*Write] {
	if o.shared == nil {
		o.shared = o.tree.Clone()
	}
	return o.shared
}

// Committed removes the writes of s, which the file has now, except writes that newer writes have replaced. It returns
// the number of bytes removed, and whether no uncommitted change is left.
func (o *Memtable[I]) Committed(s *MemtableSnapshot[I]) (shrunk int, clean bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.bytes
	o.committed = s.newest
	o.epoch++ // The next transaction may see this commit: a reader must not combine it with a MemtableView from before.
	if o.batches == s.batches {
		o.resetLocked()
		return before, true
	}
	s.tree.Ascend(func(x *Write) bool {
		if now, ok := o.tree.Get(x); ok && now == x {
			o.tree.Delete(x)
			o.removeLocked(x)
		}
		return true
	})
	o.shared = nil
	return before - o.bytes, false
}

// Drop empties the table, and returns the number of bytes dropped.
func (o *Memtable[I]) Drop() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.bytes
	o.epoch++
	o.resetLocked()
	return n
}

// Current returns the Info after the newest batch, and whether that batch is uncommitted.
func (o *Memtable[I]) Current() (info I, dirty bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.info, o.dirty
}

// Size returns the size of the uncommitted writes in bytes.
func (o *Memtable[I]) Size() int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.bytes
}

// Correct replaces the Info that Current returns by the result of update. Without uncommitted changes it does nothing.
func (o *Memtable[I]) Correct(update func(I) I) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dirty {
		o.info = update(o.info)
	}
}

// Get returns the uncommitted write of key, or nil.
func (o *Memtable[I]) Get(key string) *Write {
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

// All returns all uncommitted writes, in key order.
func (o *Memtable[I]) All() []*Write { return o.Capture(nil, func() {}).After("", 0) }

// MemtableView is an immutable snapshot of the memtable for a reader. The zero value is a MemtableView of an empty
// memtable.
type MemtableView[I any] struct {
	tree  *btree.BTree[*Write] // tree has the newest write of each key; nil for an empty MemtableView.
	Epoch uint64               // Epoch is the table's epoch at the capture, for IsAt.
	// Info is the state after the newest batch, if Dirty.
	Info  I
	Dirty bool // Dirty is true if there is an uncommitted batch.
	// Filed has the sorted keys of the writes with each value of the Lookup; nil without a Lookup.
	Filed map[string][]string
}

// Lookup names an index, and the values in the index whose keys a reader needs. A nil Values means all values.
type Lookup struct {
	Index  string
	Values []string
}

// Capture returns a MemtableView, with Filed if want is not nil. It calls the function also at the moment of the
// capture, so that no Put runs in between.
func (o *Memtable[I]) Capture(want *Lookup, also func()) *MemtableView[I] {
	o.mu.RLock()
	if o.tree.Len() == 0 || o.shared != nil {
		defer o.mu.RUnlock()
		also()
		return o.captureLocked(want)
	}
	o.mu.RUnlock()
	o.mu.Lock() // Cloning the tree needs the write lock.
	defer o.mu.Unlock()
	also()
	return o.captureLocked(want)
}

// CaptureInfo returns a MemtableView without writes: only Info, Dirty and Epoch are set.
func (o *Memtable[I]) CaptureInfo() *MemtableView[I] {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return &MemtableView[I]{Epoch: o.epoch, Info: o.info, Dirty: o.dirty}
}

func (o *Memtable[I]) captureLocked(want *Lookup) *MemtableView[I] {
	c := &MemtableView[I]{Epoch: o.epoch, Info: o.info, Dirty: o.dirty}
	if o.tree.Len() == 0 {
		return c
	}
	c.tree = o.sharedLocked()
	if want == nil {
		return c
	}
	c.Filed = map[string][]string{}
	index := o.index[want.Index]
	file := func(value string) {
		for key := range index[value] {
			c.Filed[value] = append(c.Filed[value], key)
		}
		slices.Sort(c.Filed[value])
	}
	if want.Values == nil {
		for value := range index {
			file(value)
		}
	}
	for _, value := range want.Values {
		file(value)
	}
	return c
}

// IsAt reports whether no commit began or ended, and no Drop happened, since the capture of a MemtableView with this
// epoch.
func (o *Memtable[I]) IsAt(epoch uint64) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.epoch == epoch
}

// Empty reports whether the View has no writes.
func (c *MemtableView[I]) Empty() bool { return c.tree == nil }

// Get returns the write for key, or nil.
func (c *MemtableView[I]) Get(key string) *Write {
	if c.Empty() {
		return nil
	}
	return getWrite(c.tree, key)
}

// After returns the writes of the keys after the given key, in key order, at most limit of them; 0 means no limit.
func (c *MemtableView[I]) After(key string, limit int) (writes []*Write) {
	return c.From(key, limit, func(x *Write) bool { return x.Key != key })
}

// From returns the writes from key on for which fn returns true, at most limit of them; 0 means no limit.
func (c *MemtableView[I]) From(key string, limit int, fn func(x *Write) bool) (writes []*Write) {
	if c.Empty() {
		return nil
	}
	c.tree.AscendGreaterOrEqual(&Write{Key: key}, func(x *Write) bool {
		if fn(x) {
			writes = append(writes, x)
		}
		return limit == 0 || len(writes) < limit
	})
	return writes
}

// MemtableSnapshot holds the writes of one collection that one commit writes. It is immutable.
type MemtableSnapshot[I any] struct {
	tree *btree.BTree[*Write]
	// Info is the state after the newest write of the snapshot.
	Info      I
	batches   uint64
	committed uint64 // committed is the Write.Order of the newest write of the previous commit.
	newest    uint64 // newest is the Write.Order of the newest write of this snapshot.
	Idle      bool
}

// Len returns the number of keys in the snapshot.
func (s *MemtableSnapshot[I]) Len() int { return s.tree.Len() }

// First returns the first key. ok is false if there are no keys.
func (s *MemtableSnapshot[I]) First() (key string, ok bool) {
	first, ok := s.tree.Min()
	if !ok {
		return "", false
	}
	return first.Key, true
}

// Writes returns the newest write of each key, sorted by Order; with deletes, also the key's earlier deletes.
func (s *MemtableSnapshot[I]) Writes(deletes bool) []*Write {
	all := make([]*Write, 0, s.tree.Len())
	s.tree.Ascend(func(x *Write) bool {
		for _, before := range x.deletes {
			if deletes && before.Order > s.committed {
				all = append(all, before)
			}
		}
		all = append(all, x)
		return true
	})
	slices.SortFunc(all, func(a, b *Write) int { return cmp.Compare(a.Order, b.Order) })
	return all
}
