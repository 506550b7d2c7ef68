package store

import (
	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/state"
)

// snapshot is what one commit writes of one collection.
type snapshot struct {
	*memtable.Snapshot[state.Covers]
	cursors *changelog.Snapshot // as the transaction has written them
}

// writeSnapshot writes a snapshot in a transaction.
func (c *Collection) writeSnapshot(tx *bolt.Tx, snap *snapshot) error {
	b, err := state.Bucket(tx, c.read.Name)
	if err != nil {
		return err
	}
	w, err := newWriter(c, b)
	if err != nil {
		return err
	}
	if !c.idled.Load() {
		if err := w.indexes.Idle(c.in.Set.Load()); err != nil {
			return err
		}
	}
	if first, ok := snap.First(); ok {
		if last, _ := w.objects.Cursor().Last(); string(last) < first { // all keys are appended, as in a cold start
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
	if snap.cursors, err = w.log.Settle(false); err != nil {
		return err
	}
	if snap.Info.Settled != nil && snap.Info.Settled.Rewritten {
		if err := w.dropDictionaries(); err != nil {
			return err
		}
	}
	return state.Put(b, c.read.Name, w.state)
}

// stillStored returns the refs whose objects are stored in that state. A rebuild may have lost some since the refs were
// noted.
func (w *writer) stillStored(refs []entry.ObjectRef) (have []entry.ObjectRef, err error) {
	for _, ref := range refs {
		now, err := w.get(ref.Key)
		if err != nil {
			return nil, err
		}
		if now.Found && now.UID == ref.UID && now.RV == ref.ResourceVersion {
			have = append(have, ref)
		}
	}
	return have, nil
}

// cover updates the state from the snapshot's Info. If a rebuild has set MustRelist since, cover keeps it, unless the
// snapshot has a list that ended after the rebuild.
func (c *Collection) cover(st *state.State, snap *snapshot) {
	due := st.MustRelist
	st.Follow(snap.Info.Info)
	if st.MustRelist == "" && (snap.Info.Settled == nil || snap.Info.Settled.Losses != c.Losses()) {
		st.MustRelist = due
	}
}
