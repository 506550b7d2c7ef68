package store

import (
	"context"

	bolt "go.etcd.io/bbolt"
)

// mendOne repairs one collection in a transaction; c is nil if it is not open. The caller has the writer's place.
func (s *Store) mendOne(ctx context.Context, d *damage, c *Collection) (m Mended, err error) {
	restored := c.fromMemory(d.missing())
	m.Unknown, m.Indexes = d.unknown(), d.indexes()
	for _, key := range d.missing() {
		switch {
		case restored[key] != nil:
			m.Restored = append(m.Restored, key)
		case c != nil && c.overlay.get(key) != nil: // it is on its way into the file, or out of it; then there is nothing left to put into a tombstone
			m.behind = true
		default:
			m.Lost = append(m.Lost, key)
		}
	}
	m.behind = m.behind || m.lost()
	if err := ctx.Err(); err != nil {
		return m, err
	}
	return m, s.updateFailed(func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, d.name)
		if err != nil {
			return err
		}
		if m.Identity, err = d.apply(b, m); err != nil || len(restored) == 0 {
			return err
		}
		return c.putBack(b, restored)
	})
}

// updateFailed is updateHeld for a store that has failed.
func (s *Store) updateFailed(fn func(tx *bolt.Tx) error) error {
	h, err := s.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	commit := s.hooks.commit
	if commit == nil {
		commit = (*bolt.Tx).Commit
	}
	return s.settle(h, h.update(fn, commit))
}

// apply takes out what is bad, and puts the entries right.
func (d *damage) apply(b *bolt.Bucket, m Mended) (Identity, error) {
	st, err := getState(b, d.name)
	if err != nil {
		return Identity{}, err
	}
	objects := b.Bucket(bucketObjects)
	for key := range d.bad {
		if err := objects.Delete([]byte(key)); err != nil {
			return Identity{}, err
		}
	}
	if err := d.applyEntries(b); err != nil {
		return Identity{}, err
	}
	st.Objects = d.counted - len(d.bad)
	r := reader{name: d.name}
	var newest []ObjectRef
	for _, ref := range st.Newest {
		if now, err := r.stored(objects, ref.Key); err == nil && now.found && now.UID == ref.UID && now.RV == ref.ResourceVersion {
			newest = append(newest, ref)
		}
	}
	st.Newest = newest
	if m.lost() {
		st.MustRelist = MustRelistDamaged
	}
	if m.behind {
		if err := d.setHandlersBack(b, &st); err != nil {
			return Identity{}, err
		}
	}
	return st.Identity, putState(b, d.name, st)
}

func (d *damage) applyEntries(b *bolt.Bucket) error {
	indexes := b.Bucket(bucketIndex)
	for name, fixes := range d.wrong {
		for _, fix := range fixes {
			if err := indexes.Bucket([]byte(name)).Delete(fix.raw); err != nil {
				return err
			}
		}
	}
	for name, fixes := range d.lacking {
		for _, fix := range fixes {
			k, v := indexEntry(fix.value, fix.key)
			if err := indexes.Bucket([]byte(name)).Put(k, v); err != nil {
				return err
			}
		}
	}
	seqs := b.Bucket(bucketSeq)
	for _, remove := range []bool{true, false} { // a number may have been another's
		for _, fix := range d.numbers {
			var err error
			switch {
			case remove != (fix.key == ""):
			case remove:
				err = seqs.Delete(fix.number)
			default:
				err = seqs.Put(fix.number, []byte(fix.key))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// setHandlersBack has the durable handlers begin anew: of what is lost nobody knows whether it will come back or is deleted.
func (d *damage) setHandlersBack(b *bolt.Bucket, st *state) error {
	all, err := getPlaces(b, d.name)
	if err != nil {
		return err
	}
	if st.feedSince != 0 {
		st.breakFeed()
	}
	for name := range all {
		if err := putPlace(b.Bucket(bucketHandlers), d.name, name, again(st.NextSeq, ResetDamage)); err != nil {
			return err
		}
	}
	return nil
}

// fromMemory returns the objects of these keys that are in memory, encoded, but for those that are pending: the next commit writes them.
// One that can not be encoded is left out. A nil Collection has none.
func (c *Collection) fromMemory(keys []string) map[string]*write {
	found := map[string]*write{}
	if c == nil || c.inMemory() == nil {
		return found
	}
	var all []*write
	for _, key := range keys {
		now := c.inMemory().table.state(key)
		if now == nil || c.overlay.get(key) != nil {
			continue
		}
		x := &write{key: key, obj: now.obj, uid: now.uid, rv: now.rv, terms: now.terms}
		if x.encode(c.codec) == nil {
			found[key] = x
			all = append(all, x)
		}
	}
	c.packer.pack(all)
	return found
}

// putBack writes objects of which there is no record.
func (c *Collection) putBack(b *bolt.Bucket, all map[string]*write) error {
	w, err := newWriter(c, b)
	if err != nil {
		return err
	}
	for _, x := range all {
		if err := w.put(x, stored{}); err != nil {
			return err
		}
	}
	return putState(b, c.name, w.state)
}

// forgetLost lets go of what is decoded and not in the file any more.
func (c *Collection) forgetLost() {
	if c.bounded != nil {
		c.bounded.clear()
	}
}
