package engine

import (
	"slices"

	"k8s.io/utils/third_party/forked/golang/btree"
)

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

func (c *MemtableView[I]) Empty() bool { return c.tree == nil }

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
