package memtable

import (
	"cmp"
	"slices"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// Snapshot is what one commit writes of one collection. It does not change.
type Snapshot[I any] struct {
	tree *btree.BTree[*Write]
	// Info covers it.
	Info    I
	batches uint64
	behind  uint64 // Order of the newest write of the commit before
	newest  uint64 // and of the newest one in this
	// Idle: nothing is pending.
	Idle bool
}

// Len is how many keys it has.
func (s *Snapshot[I]) Len() int { return s.tree.Len() }

// First returns the first key; ok is false if there is none.
func (s *Snapshot[I]) First() (key string, ok bool) {
	first, ok := s.tree.Min()
	if !ok {
		return "", false
	}
	return first.Key, true
}

// Overtaken reports whether uid is that of an object that the key gets after x, one of Writes.
func (s *Snapshot[I]) Overtaken(x *Write, uid string) bool {
	last := getWrite(s.tree, x.Key)
	later := append(slices.Clone(last.gone[countUpTo(last.gone, x.Order):]), last)
	return last != x && slices.ContainsFunc(later, func(y *Write) bool { return y.UID == uid })
}

// Writes returns the newest write of each key, in the order in which they came; and the deletes before them, if wanted.
func (s *Snapshot[I]) Writes(deletes bool) []*Write {
	all := make([]*Write, 0, s.tree.Len())
	s.tree.Ascend(func(x *Write) bool {
		for _, before := range x.gone {
			if deletes && before.Order > s.behind {
				all = append(all, before)
			}
		}
		all = append(all, x)
		return true
	})
	slices.SortFunc(all, func(a, b *Write) int { return cmp.Compare(a.Order, b.Order) })
	return all
}
