package store

import (
	"cmp"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/larder-dev/larder/entry"
)

// snapshot is what one commit writes of one collection. It does not change, but for places.
type snapshot struct {
	tree    *btree.BTree[*write]
	info    Info
	settled *settled // nil if no list has ended
	batches uint64
	// idle: nothing is pending but the places of durable handlers.
	idle bool
	// places are those that the transaction has written; nil if there are no durable handlers.
	places *placesSnapshot
}

// writes returns everything, in the order in which it came.
func (s *snapshot) writes() []*write {
	all := make([]*write, 0, s.tree.Len())
	s.tree.Ascend(func(x *write) bool {
		all = append(all, x)
		return true
	})
	slices.SortFunc(all, func(a, b *write) int { return cmp.Compare(a.order, b.order) })
	return all
}

// writeSnapshot writes a snapshot in a transaction.
func (c *Collection) writeSnapshot(tx *bolt.Tx, snap *snapshot) error {
	b, err := collectionBucket(tx, c.name)
	if err != nil {
		return err
	}
	w, err := newWriter(c, b)
	if err != nil {
		return err
	}
	if !c.idled.Load() {
		if err := w.idleIndexes(); err != nil {
			return err
		}
	}
	if first, ok := snap.tree.Min(); ok {
		if last, _ := w.objects.Cursor().Last(); string(last) < first.key { // a list that is new
			w.objects.FillPercent = coldFill
		}
	}
	for _, x := range snap.writes() { // in this order, since each gets the next seq
		old, err := w.get(x.key)
		if err == nil {
			err = w.replace(x, old)
		}
		if err != nil {
			return err
		}
	}
	if !snap.idle {
		c.cover(&w.state, snap)
		if w.state.Newest, err = w.stillStored(snap.info.Newest); err != nil {
			return err
		}
	}
	if err := w.feed.settle(); err != nil {
		return err
	}
	snap.places = w.places
	if snap.settled != nil && snap.settled.rewritten {
		if err := c.dropDictionaries(b, &w.state); err != nil {
			return err
		}
	}
	return putState(b, c.name, w.state)
}

// stillStored returns those of the refs that are to what is stored. Since a batch took note of them a rebuild may have
// lost some.
func (w *writer) stillStored(refs []entry.ObjectRef) (have []entry.ObjectRef, err error) {
	for _, ref := range refs {
		now, err := w.get(ref.Key)
		if err != nil {
			return nil, err
		}
		if now.found && now.UID == ref.UID && now.RV == ref.ResourceVersion {
			have = append(have, ref)
		}
	}
	return have, nil
}

// cover makes the state the one that a snapshot says the objects stand at. That the collection must be listed, which a
// rebuild may have found since, only a list that has ended after it takes back.
func (c *Collection) cover(st *state, snap *snapshot) {
	due := st.MustRelist
	st.follow(snap.info)
	if st.MustRelist == "" && (snap.settled == nil || snap.settled.losses != c.Losses()) {
		st.MustRelist = due
	}
}

// follow makes the state the one that info says the objects stand at.
func (st *state) follow(info Info) {
	st.ResourceVersion, st.LastContact, st.Newest = info.ResourceVersion, info.LastContact, info.Newest
	st.LeftOut, st.LeftOutMore = info.LeftOut, info.LeftOutMore
	st.Complete, st.Attributes, st.MustRelist = info.Complete, info.Attributes, info.MustRelist
}
