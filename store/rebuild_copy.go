package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// copying is one copy of what can be read.
type copying struct {
	s          *Store
	old, fresh *handle
	// unsafe are the collections, and the bucket of documents, in which bbolt might run in circles.
	unsafe map[string]bool
	// keysLost: nobody has the data keys, whose record is damaged.
	keysLost bool
	// lost is why, by the name of each collection that is not copied whole.
	lost map[string]string
	// copied are the collections that are in the new file.
	copied map[string]bool
	// behind are those whose change feed has lost tombstones.
	behind map[string]bool
}

// run copies every collection.
func (c *copying) run(ctx context.Context) error {
	if err := c.findUnsafe(ctx); err != nil {
		return err
	}
	if err := c.write(func(tx *bolt.Tx) error { return putClean(tx, false) }); err != nil {
		return err
	}
	if err := c.keys(); err != nil {
		return err
	}
	if c.unsafe[""] {
		return nil // the root itself
	}
	var names []string
	_, err := c.salvage(ctx, []string{string(format.BucketLarder)}, func(entries []pair) error {
		for _, e := range entries {
			if e.value == nil {
				names = append(names, string(e.key))
			}
		}
		return nil
	})
	for _, name := range names {
		if err == nil {
			err = c.collection(ctx, name)
		}
	}
	if err == nil {
		err = c.documents(ctx)
	}
	return err
}

// keys copies the data keys: those that this process has unwrapped, else what the old file says of them. Without them
// what is sealed is lost.
func (c *copying) keys() error {
	record := c.s.keys.held().record
	if c.s.keys == nil && !c.unsafe[""] {
		err := c.old.view(func(tx *bolt.Tx) error {
			_, err := getKeys(tx)
			if c.keysLost = isDamaged(err); !c.keysLost { // that of a newer program too
				record = bytes.Clone(tx.Bucket(format.BucketLarder).Get(format.KeyKeys))
			}
			return nil
		})
		if err != nil && !isDamaged(err) {
			return err
		}
	}
	if record == nil {
		return nil
	}
	return c.write(func(tx *bolt.Tx) error { return tx.Bucket(format.BucketLarder).Put(format.KeyKeys, record) })
}

// reader reads a collection of the old file as that of the store.
func (c *copying) reader(name string) *reader { return &reader{store: c.s, name: name} }

// findUnsafe looks at the branches of the old file without the mapping.
func (c *copying) findUnsafe(ctx context.Context) error {
	err := c.old.view(func(tx *bolt.Tx) error {
		info, err := c.old.file.Stat()
		if err != nil {
			return err
		}
		pages, err := boltcheck.Salvage(c.old.file, info.Size(), uint64(tx.ID()))
		if err != nil {
			return ownErrors(err)
		}
		_, err = pages.Walk(ctx, boltcheck.WalkOptions{LeafDepth: branchDepth, Unsafe: func(path []string) {
			c.unsafe[unsafeName(path)] = true
		}})
		return err
	})
	if errors.Is(err, entry.ErrDamaged) {
		c.unsafe[""] = true // not even the meta pages
		return nil
	}
	return err
}

// unsafeName returns what there is no copying of if a page of that bucket is bad: a collection, the documents, what is
// being removed, or, empty, anything.
func unsafeName(path []string) string {
	switch {
	case len(path) > 1:
		return path[1]
	case len(path) == 1 && path[0] != string(format.BucketLarder):
		return path[0]
	}
	return ""
}

// collection copies what can be read of one collection.
func (c *copying) collection(ctx context.Context, name string) error {
	if c.unsafe[name] {
		c.lost[name] = "its branch pages are damaged"
		return nil
	}
	st, err := c.state(name)
	if errors.Is(err, entry.ErrDamaged) || errors.Is(err, ErrNoCollection) {
		c.lost[name] = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	if c.keysLost && st.Sealed {
		c.lost[name] = "it is sealed, and the data keys are damaged"
		return nil
	}
	expected := st.Objects
	st.Objects, st.Newest = 0, nil
	dicts, err := c.dictionaries(ctx, name, &st)
	if err != nil {
		return err
	}
	bad := 0
	whole, err := c.salvage(ctx, []string{string(format.BucketLarder), name, string(format.BucketObjects)},
		func(entries []pair) error {
			return c.write(func(tx *bolt.Tx) error {
				n, err := c.reader(name).putRecords(tx, &st, dicts, entries)
				bad += n
				return err
			})
		})
	if err != nil {
		return err
	}
	if !whole || bad > 0 || st.Objects != expected {
		c.lost[name] = fmt.Sprintf("%d of %d objects are left", st.Objects, expected)
		st.MustRelist = MustRelistDamaged
	}
	c.copied[name] = true
	handlers, err := c.feed(ctx, name, &st)
	if err != nil {
		return err
	}
	return c.write(func(tx *bolt.Tx) error {
		b, err := ensureCollection(tx, name, st)
		if err != nil {
			return err
		}
		for handler, place := range handlers {
			if err := putPlace(b.Bucket(format.BucketHandlers), name, handler, place); err != nil {
				return err
			}
		}
		return putState(b, name, st)
	})
}

// state reads that of a collection.
func (c *copying) state(name string) (st state, err error) {
	err = c.old.view(func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, name)
		if err != nil {
			return err
		}
		st, err = getState(b, name)
		return err
	})
	return st, err
}

// feed copies the tombstones of a collection, and returns the places of its durable handlers: those that may have
// missed something, or whose places cannot be read, begin anew.
func (c *copying) feed(ctx context.Context, name string, st *state) (handlers map[string]Place, err error) {
	if st.feedSince == 0 {
		return nil, nil
	}
	bad, expected := 0, st.tombstones
	st.tombstones = 0
	whole, err := c.salvage(ctx, []string{string(format.BucketLarder), name, string(format.BucketTombstones)},
		func(entries []pair) error {
			return c.write(func(tx *bolt.Tx) error {
				n, err := c.reader(name).putTombstones(tx, st, entries)
				bad += n
				return err
			})
		})
	if err != nil {
		return nil, err
	}
	c.behind[name] = !whole || bad > 0 || st.tombstones < expected || c.lost[name] != ""
	err = c.old.view(func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, name)
		if err != nil {
			return err
		}
		handlers, err = getPlaces(b, name)
		return err
	})
	if isDamaged(err) {
		err = nil // those that cannot be read begin anew
	}
	if err != nil {
		return nil, err
	}
	if c.behind[name] {
		st.breakFeed()
		for handler := range handlers {
			handlers[handler] = again(st.NextSeq, ResetDamage)
		}
	}
	return handlers, nil
}

func (r *reader) putTombstones(tx *bolt.Tx, st *state, entries []pair) (bad int, err error) {
	b, err := ensureCollection(tx, r.name, *st)
	if err != nil {
		return 0, err
	}
	tombstones := b.Bucket(format.BucketTombstones)
	for _, e := range entries {
		seq, ok := format.ParseSeqKey(e.key)
		if ok {
			t, err := format.ParseTombstone(r.name, seq, e.value)
			ok = err == nil && r.verifySealed(format.BucketTombstones, t.Place(), t.Header, t.Payload) == nil
		}
		if !ok {
			bad++
			continue
		}
		if err := tombstones.Put(e.key, e.value); err != nil {
			return bad, err
		}
		st.tombstones++
	}
	return bad, nil
}

// dictionaries copies those of a collection that are good, and returns their ids. Records that name another one cannot
// be read.
func (c *copying) dictionaries(ctx context.Context, name string, st *state) (ids map[uint64]bool, err error) {
	ids = map[uint64]bool{}
	there := false
	err = c.old.view(func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, name)
		there = err == nil && b.Bucket(format.BucketDictionaries) != nil
		return err
	})
	if err == nil && there {
		_, err = c.salvage(ctx, []string{string(format.BucketLarder), name, string(format.BucketDictionaries)},
			func(entries []pair) error {
				return c.write(func(tx *bolt.Tx) error { return c.reader(name).putDictionaries(tx, st, ids, entries) })
			})
	}
	if errors.Is(err, entry.ErrDamaged) {
		err = nil // there is none that can be read
	}
	if !ids[st.dictionary] {
		st.dictionary = 0
	}
	return ids, err
}

func (r *reader) putDictionaries(tx *bolt.Tx, st *state, ids map[uint64]bool, entries []pair) error {
	b, err := ensureCollection(tx, r.name, *st)
	if err != nil {
		return err
	}
	dicts, err := b.CreateBucketIfNotExists(format.BucketDictionaries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, ok := format.ParseDictionaryKey(e.key)
		if !ok {
			continue
		}
		if _, err := r.parseDictionary(id, e.value); err != nil && !errors.Is(err, seal.ErrSealed) {
			continue // Check has reported it, or whoever needed it
		}
		if err := dicts.Put(e.key, e.value); err != nil {
			return err
		}
		ids[id] = true
	}
	return nil
}

// ensureCollection returns the collection's bucket with those that every collection has.
func ensureCollection(tx *bolt.Tx, name string, st state) (*bolt.Bucket, error) {
	b, err := tx.Bucket(format.BucketLarder).CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return nil, err
	}
	if _, err := b.CreateBucketIfNotExists(format.BucketObjects); err != nil {
		return nil, err
	}
	indexes, err := b.CreateBucketIfNotExists(format.BucketIndex)
	if err != nil {
		return nil, err
	}
	for index := range st.indexes {
		if _, err := indexes.CreateBucketIfNotExists([]byte(index)); err != nil {
			return nil, err
		}
	}
	if st.feedSince != 0 {
		err = createFeed(b)
	}
	return b, err
}

// putRecords writes records as they are, and the index entries that their
// headers name: those are what an index consists of, so that the old ones need
// not be read. It returns how many records were bad, or need a dictionary that is lost.
func (r *reader) putRecords(tx *bolt.Tx, st *state, dicts map[uint64]bool, entries []pair) (bad int, err error) {
	b, err := ensureCollection(tx, r.name, *st)
	if err != nil {
		return 0, err
	}
	objects, indexes := b.Bucket(format.BucketObjects), b.Bucket(format.BucketIndex)
	objects.FillPercent = coldFill
	for _, e := range entries {
		key := string(e.key)
		h, payload, err := format.ParseRecord(r.name, key, e.value)
		if err == nil {
			err = r.verifySealed(format.BucketObjects, key, h, payload)
		}
		if err != nil || objects.Get(e.key) != nil || h.Dictionary != 0 && !dicts[h.Dictionary] {
			bad++
			continue
		}
		if err := objects.Put(e.key, e.value); err != nil {
			return bad, err
		}
		for index := range st.indexes {
			if err := moveEntries(indexes.Bucket([]byte(index)), key, nil, h.Terms[index], true); err != nil {
				return bad, err
			}
		}
		if h.Seq >= st.feedSince && st.feedSince != 0 {
			if err := b.Bucket(format.BucketSeq).Put(format.SeqKey(h.Seq), e.key); err != nil {
				return bad, err
			}
		}
		st.Objects++
		st.Newest = offerRef(st.Newest, entry.ObjectRef{Key: key, UID: h.UID, ResourceVersion: h.RV}, newestRefs)
	}
	return bad, nil
}

// write runs fn in a transaction of the new file.
func (c *copying) write(fn func(tx *bolt.Tx) error) error {
	return c.fresh.update(fn, (*bolt.Tx).Commit)
}
