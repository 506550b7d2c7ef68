package store

import (
	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// snapshot is what one commit writes of one collection.
type snapshot struct {
	*memtable.Snapshot[covers]
	// places are those that the transaction has written; nil if there are no durable handlers.
	places *placesSnapshot
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
	if first, ok := snap.First(); ok {
		if last, _ := w.objects.Cursor().Last(); string(last) < first { // a list that is new
			w.objects.FillPercent = coldFill
		}
	}
	for _, x := range snap.Writes() { // in this order, since each gets the next seq
		old, err := w.get(x.Key)
		if err == nil {
			err = w.replace(x, old)
		}
		if err != nil {
			return err
		}
	}
	if !snap.Idle {
		c.cover(&w.state, snap)
		if w.state.Newest, err = w.stillStored(snap.Info.Newest); err != nil {
			return err
		}
	}
	if err := w.feed.settle(); err != nil {
		return err
	}
	snap.places = w.places
	if snap.Info.settled != nil && snap.Info.settled.rewritten {
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
	st.follow(snap.Info.Info)
	if st.MustRelist == "" && (snap.Info.settled == nil || snap.Info.settled.losses != c.Losses()) {
		st.MustRelist = due
	}
}

// follow makes the state the one that info says the objects stand at.
func (st *state) follow(info Info) {
	st.ResourceVersion, st.LastContact, st.Newest = info.ResourceVersion, info.LastContact, info.Newest
	st.LeftOut, st.LeftOutMore = info.LeftOut, info.LeftOutMore
	st.Complete, st.Attributes, st.MustRelist = info.Complete, info.Attributes, info.MustRelist
}
