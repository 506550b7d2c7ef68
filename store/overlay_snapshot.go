package store

import (
	bolt "go.etcd.io/bbolt"
	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/larder-dev/larder/entry"
)

// snapshot is what one commit writes of one collection. It does not change, but for places.
type snapshot struct {
	tree    *btree.BTree[*write]
	info    Info
	batches uint64
	// idle: nothing is pending but the places of durable handlers.
	idle bool
	// places are those that the transaction has written; nil if there are no durable handlers.
	places *placesSnapshot
}

// writes returns everything, in key order.
func (s *snapshot) writes() []*write {
	all := make([]*write, 0, s.tree.Len())
	s.tree.Ascend(func(x *write) bool {
		all = append(all, x)
		return true
	})
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
	snap.tree.Ascend(func(x *write) bool {
		var old stored
		if old, err = w.get(x.key); err == nil {
			err = w.replace(x, old)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if !snap.idle {
		w.state.cover(snap.info)
		if w.state.Newest, err = w.stillStored(snap.info.Newest); err != nil {
			return err
		}
	}
	if err := w.feed.settle(); err != nil {
		return err
	}
	snap.places = w.places
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

// cover makes the state the one that info says the objects stand at.
func (st *state) cover(info Info) {
	st.ResourceVersion, st.LastContact, st.Newest = info.ResourceVersion, info.LastContact, info.Newest
	st.LeftOut, st.LeftOutMore = info.LeftOut, info.LeftOutMore
	if info.MustRelist != "" {
		st.MustRelist = info.MustRelist
	}
}
