package store

import (
	"context"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/utils/third_party/forked/golang/btree"
)

// captured is the overlay at one moment, as a read sees it. A nil tree is an empty one.
type captured struct {
	tree  *btree.BTree[*write]
	epoch uint64
	// forgotten is how often something had left the overlay without being in the file.
	forgotten uint64
	// info is of the newest batch, while unsaved.
	info    Info
	unsaved bool
	// filed are the keys that the wanted index files under each of the wanted values, in order.
	filed map[string][]string
}

// lookup names what a read wants of an index: the keys under some values, or, if values is nil, under every one.
type lookup struct {
	index   string
	values  []string
	objects bool // are wanted, and not only their keys and values
}

// capture returns the overlay as it is; want may be nil.
func (o *overlay) capture(want *lookup) *captured {
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

// captureInfo is capture without what is pending for the keys.
func (o *overlay) captureInfo() *captured {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return &captured{epoch: o.epoch, info: o.info, unsaved: o.unsaved}
}

func (o *overlay) captureLocked(want *lookup) *captured {
	c := &captured{epoch: o.epoch, forgotten: o.forgotten, info: o.info, unsaved: o.unsaved}
	if o.tree.Len() == 0 {
		return c
	}
	c.tree = o.sharedLocked()
	if want == nil {
		return c
	}
	c.filed = map[string][]string{}
	index := o.index[want.index]
	file := func(value string) {
		for key := range index[value] {
			c.filed[value] = append(c.filed[value], key)
		}
		slices.Sort(c.filed[value])
	}
	if want.values == nil {
		for value := range index {
			file(value)
		}
	}
	for _, value := range want.values {
		file(value)
	}
	return c
}

// isAt reports whether no snapshot has been taken since the epoch, nor one left.
func (o *overlay) isAt(epoch uint64) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.epoch == epoch
}

// empty reports whether the file has everything.
func (c *captured) empty() bool { return c.tree == nil }

// get returns what is pending for key, or nil.
func (c *captured) get(key string) *write {
	if c.empty() {
		return nil
	}
	return getWrite(c.tree, key)
}

// after returns what is pending for the keys after the given one, in order, up to limit; 0 is no limit.
func (c *captured) after(key string, limit int) (writes []*write) {
	return c.from(key, limit, func(x *write) bool { return x.key != key })
}

// from is after that begins with the given key, for the writes that fn takes.
func (c *captured) from(key string, limit int, fn func(x *write) bool) (writes []*write) {
	if c.empty() {
		return nil
	}
	c.tree.AscendGreaterOrEqual(&write{key: key}, func(x *write) bool {
		if fn(x) {
			writes = append(writes, x)
		}
		return limit == 0 || len(writes) < limit
	})
	return writes
}

// viewOver calls fn with the collection's bucket and with what is pending over it, so that the two
// together are one state: that after some batch.
func (r *reader) viewOver(ctx context.Context, want *lookup, fn func(b *bolt.Bucket, over *captured) error) error {
	return r.viewCaptured(ctx, func() *captured { return r.overlay.capture(want) }, fn)
}

// viewCaptured captures the overlay before the transaction begins, so what leaves it meanwhile is in the file; and
// if something later might be in the file already, it is all done again.
func (r *reader) viewCaptured(ctx context.Context, capture func() *captured, fn func(b *bolt.Bucket, over *captured) error) error {
	for {
		over, again := &captured{}, false
		if r.overlay != nil {
			over = capture()
		}
		err := r.view(ctx, func(b *bolt.Bucket) error {
			if r.overlay != nil && !r.overlay.isAt(over.epoch) {
				again = true
				return nil
			}
			return fn(b, over)
		})
		if !again {
			return err
		}
	}
}

// overScan reads the objects of a collection in key order: those of the file, and those that are pending over it
// in their place.
type overScan struct {
	file    *scan
	k, v    []byte // the next of the file
	over    *captured
	pending []*write // the next of over
	all     bool     // pending reaches to the end
}

// overChunk is how many pending writes are looked at ahead.
const overChunk = 256

// scanOver begins after the given key.
func scanOver(objects *bolt.Bucket, over *captured, after string) *overScan {
	s := &overScan{file: scanAfter(objects, after), over: over}
	s.k, s.v = s.file.next()
	s.ahead(after)
	return s
}

// scanOverFrom begins with the given key.
func scanOverFrom(objects *bolt.Bucket, over *captured, from string) *overScan {
	s := &overScan{file: scanAfter(objects, ""), over: over}
	s.k, s.v = s.file.seek([]byte(from))
	s.pending = over.from(from, overChunk, func(*write) bool { return true })
	s.all = len(s.pending) < overChunk
	return s
}

func (s *overScan) ahead(after string) {
	s.pending = s.over.after(after, overChunk)
	s.all = len(s.pending) < overChunk
}

// next returns the next key with its record, or with the write that is pending. ok is false at the end, and err set
// if that is because of damage.
func (s *overScan) next() (key string, data []byte, x *write, ok bool) {
	for {
		switch {
		case len(s.pending) == 0 && s.k == nil:
			return "", nil, nil, false
		case len(s.pending) == 0 || s.k != nil && string(s.k) < s.pending[0].key:
			key, data = string(s.k), s.v
			s.k, s.v = s.file.next()
			return key, data, nil, true
		}
		x = s.pending[0]
		if s.pending = s.pending[1:]; len(s.pending) == 0 && !s.all {
			s.ahead(x.key)
		}
		if s.k != nil && string(s.k) == x.key {
			s.k, s.v = s.file.next()
		}
		if !x.del {
			return x.key, nil, x, true
		}
	}
}

func (s *overScan) err() error { return s.file.err }
