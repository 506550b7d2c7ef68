package memtable

import (
	"slices"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// View is a table at one moment, as a read sees it. The zero value is that of an empty one.
type View[I any] struct {
	tree  *btree.BTree[*Write]
	Epoch uint64
	// Info covers the newest batch, while Unsaved.
	Info    I
	Unsaved bool
	// Filed are the keys that the wanted index files under each of the wanted values, in order.
	Filed map[string][]string
}

// Lookup names what a read wants of an index: the keys under some values, or, if Values is nil, under every one.
type Lookup struct {
	Index  string
	Values []string
}

// Capture returns the table as it is; want may be nil.
func (o *Table[I]) Capture(want *Lookup) *View[I] {
	o.mu.RLock()
	if o.tree.Len() == 0 || o.shared != nil {
		defer o.mu.RUnlock()
		return o.captureLocked(want)
	}
	o.mu.RUnlock()
	o.mu.Lock() // to clone the tree
	defer o.mu.Unlock()
	return o.captureLocked(want)
}

// CaptureInfo is Capture without what is pending for the keys.
func (o *Table[I]) CaptureInfo() *View[I] {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return &View[I]{Epoch: o.epoch, Info: o.info, Unsaved: o.unsaved}
}

func (o *Table[I]) captureLocked(want *Lookup) *View[I] {
	c := &View[I]{Epoch: o.epoch, Info: o.info, Unsaved: o.unsaved}
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

// IsAt reports whether no snapshot has been taken since the epoch, nor one left.
func (o *Table[I]) IsAt(epoch uint64) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.epoch == epoch
}

// Empty reports whether the file has everything.
func (c *View[I]) Empty() bool { return c.tree == nil }

// Get returns what is pending for key, or nil.
func (c *View[I]) Get(key string) *Write {
	if c.Empty() {
		return nil
	}
	return getWrite(c.tree, key)
}

// After returns what is pending for the keys after the given one, in order, up to limit; 0 is no limit.
func (c *View[I]) After(key string, limit int) (writes []*Write) {
	return c.From(key, limit, func(x *Write) bool { return x.Key != key })
}

// From is After that begins with the given key, for the writes that fn takes.
func (c *View[I]) From(key string, limit int, fn func(x *Write) bool) (writes []*Write) {
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
