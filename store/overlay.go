package store

import (
	"sync"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// overlay is what a collection has been given and its file does not have yet:
// each key's newest state and its index terms, and the Info that covers them.
// Readers look here first and then in the file. A commit takes a snapshot,
// and what has not been written over since leaves the overlay when it is in the file.
type overlay struct {
	mu        sync.RWMutex
	tree      *btree.BTree[*write]                      // by key; guarded by mu
	shared    *btree.BTree[*write]                      // a clone of tree as it is, for readers; nil if there is none; guarded by mu
	index     map[string]map[string]map[string]struct{} // name, value, keys of what is in tree; guarded by mu
	info      Info                                      // after the newest batch, while unsaved; guarded by mu
	unsaved   bool                                      // guarded by mu
	settled   *settled                                  // by the newest list that has ended, while unsaved; guarded by mu
	bytes     int                                       // of tree; guarded by mu
	batches   uint64                                    // that were put; guarded by mu
	writes    uint64                                    // that were put; guarded by mu
	epoch     uint64                                    // grows with each snapshot, and when it leaves; guarded by mu
	forgotten uint64                                    // how often something has left without being in the file; guarded by mu
}

// settled is a list that has ended: from then on the collection need not be listed.
type settled struct {
	losses    int  // of the collection at that moment: what a rebuild has lost since, it does not settle
	rewritten bool // every body was stored anew, so dictionaries may be needed no more
}

// overlayDegree of the tree: a few hundred nodes for the 4 MiB that a commit takes.
const overlayDegree = 16

func newOverlay() *overlay {
	o := &overlay{}
	o.resetLocked()
	return o
}

func (o *overlay) resetLocked() {
	o.tree = btree.New(overlayDegree, func(a, b *write) bool { return a.key < b.key })
	o.shared, o.index = nil, map[string]map[string]map[string]struct{}{}
	o.info, o.unsaved, o.settled, o.bytes = Info{}, false, nil, 0
}

// put takes in the last write of each key of a batch, and the Info after it. It returns by how many bytes it has grown.
// also is called before readers and commits can see it. settles is the list that has ended with it, or nil.
func (o *overlay) put(last []*write, info Info, settles *settled, also func()) (grown int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	also()
	before := o.bytes
	for _, x := range last {
		if old, had := o.tree.Get(x); had {
			x.follow(old)
			x.sameObject = x.sameObject && old.sameObject
			o.forgetLocked(old)
		}
		o.writes++
		x.order = o.writes
		o.tree.ReplaceOrInsert(x)
		o.bytes += x.size()
		o.indexLocked(x)
	}
	o.shared = nil
	o.info, o.unsaved = info, true
	if settles != nil {
		o.settled = settles
	}
	o.batches++
	return o.bytes - before
}

func (o *overlay) forgetLocked(x *write) {
	o.bytes -= x.size()
	for name, values := range x.terms {
		for _, value := range values {
			keys := o.index[name][value]
			if delete(keys, x.key); len(keys) == 0 {
				delete(o.index[name], value)
			}
		}
	}
}

func (o *overlay) indexLocked(x *write) {
	if x.del {
		return
	}
	for name, values := range x.terms {
		index := o.index[name]
		if index == nil {
			index = map[string]map[string]struct{}{}
			o.index[name] = index
		}
		for _, value := range values {
			if index[value] == nil {
				index[value] = map[string]struct{}{}
			}
			index[value][x.key] = struct{}{}
		}
	}
}

// snapshot returns what is to be written; it is idle if there is nothing.
func (o *overlay) snapshot() *snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.unsaved {
		return &snapshot{tree: o.sharedLocked(), batches: o.batches, idle: true}
	}
	o.epoch++
	return &snapshot{tree: o.sharedLocked(), info: o.info, settled: o.settled, batches: o.batches}
}

// sharedLocked returns the tree as it is now. The caller has mu for writing if shared is nil.
func (o *overlay) sharedLocked() *btree.BTree[*write] {
	if o.shared == nil {
		o.shared = o.tree.Clone()
	}
	return o.shared
}

// committed lets go of what the file has now. It returns by how many bytes the overlay has shrunk, and
// whether nothing is left.
func (o *overlay) committed(s *snapshot) (shrunk int, clean bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.bytes
	o.epoch++ // the file may be written without the overlay now: who captured what leaves must not lay it over that
	if o.batches == s.batches {
		o.resetLocked()
		return before, true
	}
	s.tree.Ascend(func(x *write) bool {
		if now, ok := o.tree.Get(x); ok && now == x {
			o.tree.Delete(x)
			o.forgetLocked(x)
		}
		return true
	})
	o.shared = nil
	return before - o.bytes, false
}

// drop empties the overlay, and returns how many bytes that was.
func (o *overlay) drop() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.bytes
	o.epoch++
	o.forgotten++
	o.resetLocked()
	return n
}

// current returns the Info after the newest batch, if it is not in the file yet.
func (o *overlay) current() (info Info, unsaved bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.info, o.unsaved
}

// size is how many bytes are pending.
func (o *overlay) size() int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.bytes
}

// correct replaces the Info after the newest batch, unless the file has that already.
func (o *overlay) correct(info Info) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsaved {
		o.info = info
	}
}

// get returns what is pending for key, or nil.
func (o *overlay) get(key string) *write {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return getWrite(o.tree, key)
}

func getWrite(tree *btree.BTree[*write], key string) *write {
	if tree.Len() == 0 {
		return nil
	}
	x, _ := tree.Get(&write{key: key})
	return x
}

// all returns everything that is pending, in key order.
func (o *overlay) all() []*write { return o.capture(nil).after("", 0) }

// covered reports whether there are terms for everything that is pending.
func (o *overlay) covered(terms map[*write]map[string][]string) bool {
	complete := true
	for _, x := range o.all() {
		_, ok := terms[x]
		complete = complete && (ok || x.del)
	}
	return complete
}

// reterm gives every pending write the terms that were computed for it, while nothing is put or committed. It returns by how
// many bytes the overlay has grown.
func (o *overlay) reterm(terms map[*write]map[string][]string) (grown int) {
	next := newOverlay()
	for _, x := range o.all() {
		y := *x
		if !x.del {
			y.terms = terms[x]
		}
		next.tree.ReplaceOrInsert(&y)
		next.bytes += y.size()
		next.indexLocked(&y)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.bytes
	o.tree, o.index, o.bytes, o.shared = next.tree, next.index, next.bytes, nil
	return o.bytes - before
}
