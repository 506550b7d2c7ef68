package engine

import (
	"cmp"
	"slices"

	"k8s.io/utils/third_party/forked/golang/btree"
)

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

func (s *MemtableSnapshot[I]) Len() int { return s.tree.Len() }

func (s *MemtableSnapshot[I]) First() (key string, ok bool) {
	first, ok := s.tree.Min()
	if !ok {
		return "", false
	}
	return first.Key, true
}

// Overtaken reports whether a later write of x's key is of the object with the given uid. x is a result of Writes.
func (s *MemtableSnapshot[I]) Overtaken(x *Write, uid string) bool {
	last := getWrite(s.tree, x.Key)
	later := append(slices.Clone(last.deletes[countUpTo(last.deletes, x.Order):]), last)
	return last != x && slices.ContainsFunc(later, func(y *Write) bool { return y.UID == uid })
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
