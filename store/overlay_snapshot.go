package store

import (
	bolt "go.etcd.io/bbolt"
	"k8s.io/utils/third_party/forked/golang/btree"
)

// snapshot is what one commit writes of one collection. It does not change, but for leftOut and places.
type snapshot struct {
	tree    *btree.BTree[*write]
	info    Info
	batches uint64
	leftOut bool // some objects, by encode
	// idle: nothing is pending but the places of durable handlers.
	idle bool
	// places are those that the transaction has written; nil if there are no durable handlers.
	places *placesSnapshot
}

// encode makes the payloads that are missing. It returns why those that can not be made can not.
func (s *snapshot) encode(codec Codec) (bad map[string]error) {
	s.tree.Ascend(func(x *write) bool {
		if err := x.encode(codec); err != nil {
			if bad == nil {
				bad = map[string]error{}
			}
			bad[x.key] = err
		}
		return true
	})
	s.leftOut = len(bad) > 0
	return bad
}

// writeSnapshot writes a snapshot in a transaction. Objects that could not be encoded are left out; since handlers
// were told of them, the next start has to list.
func (c *Collection) writeSnapshot(tx *bolt.Tx, snap *snapshot, bad map[string]error) error {
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
		if bad[x.key] != nil {
			return true
		}
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
	for key, why := range bad {
		c.store.logger().Error(why, "An object could not be encoded after all; the next start will list", "collection", c.id.String(), "key", key)
		w.state.MustRelist = "an object could not be encoded when it was committed"
	}
	if err := w.feed.settle(); err != nil {
		return err
	}
	snap.places = w.places
	return putState(b, c.name, w.state)
}

// stillStored returns those of the refs that are to what is stored. Since a batch took note of them a rebuild may have lost
// some, and some could not be encoded.
func (w *writer) stillStored(refs []ObjectRef) (have []ObjectRef, err error) {
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
