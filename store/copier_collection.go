package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/compress"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/seal"
)

// collectionCopy copies one collection. If the collection is copied as it was, all of its buckets are, and records are
// only verified. Otherwise its dictionaries, records, tombstones and handlers' cursors are copied, and its indexes,
// changelog entries and state are made from them.
type collectionCopy struct {
	*copier
	name string
	path bucketPath
	r    *reader // reads the old file
	// st is the state that is written to the copy; not used if the collection is copied as it was.
	st state
	// sealing is the key with which the collection is sealed anew; nil if it is not sealed anew.
	sealing *seal.DataKey
	// dicts maps the ids of dictionaries in the old file to their ids in the copy.
	dicts map[uint64]uint64
}

// collection copies a collection.
func (c *copier) collection(ctx context.Context, name string) error {
	if c.unsafe[name] {
		return c.lose(name, fmt.Errorf("its branch pages: %w", entry.ErrDamaged))
	}
	cc := &collectionCopy{copier: c, name: name, path: bucketPath{format.BucketLarder, []byte(name)},
		r: &reader{store: c.s, name: name}, dicts: map[uint64]uint64{}}
	err := c.old.View(cc.begin)
	if isDamaged(err) || errors.Is(err, ErrNoCollection) {
		return c.lose(name, err)
	}
	if err != nil {
		return err
	}
	return cc.copy(ctx)
}

// begin reads the state of the collection, and sets sealing if the collection must be sealed anew.
func (c *collectionCopy) begin(tx *bolt.Tx) error {
	var err error
	if _, c.st, err = findState(tx, c.name); err != nil {
		return err
	}
	if c.keysLost && c.st.Sealed {
		return fmt.Errorf("it is sealed, and the data keys: %w", entry.ErrDamaged)
	}
	if c.key != nil && (c.st.Sealed || c.s.Seals(c.st.Identity.GroupResource())) {
		c.sealing = c.key
		c.st.Sealed, c.st.PlainText = true, false
	}
	return nil
}

// asItWas reports whether the collection is copied unchanged, with entries that this program does not know.
func (c *collectionCopy) asItWas() bool { return c.sealing == nil && !c.salvage }

// copy copies the collection: dictionaries first, because records need their new ids, then records and tombstones, then
// the other buckets, and last the state, which depends on what was copied.
func (c *collectionCopy) copy(ctx context.Context) error {
	buckets, err := c.values(ctx, c.path, func(pair) bool { return !c.salvage })
	if err != nil {
		return err
	}
	for _, name := range buckets {
		if string(name) == string(format.BucketDictionaries) {
			if _, _, err := c.each(ctx, c.path.to(name), c.dictionary); err != nil {
				return err
			}
		}
	}
	c.st.dictionary = c.dicts[c.st.dictionary]
	if err := c.objects(ctx); err != nil {
		return err
	}
	if err := c.tombstones(ctx); err != nil {
		return err
	}
	for _, name := range buckets {
		if err := c.rest(ctx, name); err != nil {
			return err
		}
	}
	if c.asItWas() {
		return nil
	}
	return c.write(func(tx *bolt.Tx) error {
		b, err := c.path.make(tx)
		if err == nil {
			err = makeBuckets(b, c.st)
		}
		if err != nil {
			return err
		}
		c.st.Newest = slices.DeleteFunc(c.st.Newest, func(ref entry.ObjectRef) bool {
			return b.Bucket(format.BucketObjects).Get([]byte(ref.Key)) == nil // it is lost
		})
		return putState(b, c.name, c.st)
	})
}

// objects copies the records. If any is lost, the collection must be listed.
func (c *collectionCopy) objects(ctx context.Context) error {
	expected := c.st.Objects
	copied, whole, err := c.each(ctx, c.path.to(format.BucketObjects), c.object)
	if err != nil || whole && copied == expected {
		return err
	}
	c.st.Objects, c.st.MustRelist = copied, MustRelistDamaged
	return c.lose(c.name, fmt.Errorf("%d of %d objects are left: %w", copied, expected, entry.ErrDamaged))
}

// tombstones copies the tombstones of the changelog. If any is lost, readers of the changelog must begin anew.
func (c *collectionCopy) tombstones(ctx context.Context) error {
	if c.st.feedSince == 0 {
		return nil
	}
	expected := c.st.tombstones
	copied, whole, err := c.each(ctx, c.path.to(format.BucketTombstones), c.tombstone)
	if err != nil {
		return err
	}
	c.st.tombstones = copied
	if !whole || copied < expected {
		c.behind[c.name] = true
		err = c.tolerate(fmt.Errorf("collection %s has %d of %d tombstones: %w", c.name, copied, expected, entry.ErrDamaged))
	}
	if c.behind[c.name] {
		c.st.breakFeed()
	}
	return err
}

// rest copies a bucket of the collection that has not been copied yet.
func (c *collectionCopy) rest(ctx context.Context, name []byte) (err error) {
	switch path := c.path.to(name); string(name) {
	case string(format.BucketObjects), string(format.BucketTombstones), string(format.BucketDictionaries):
	case string(format.BucketHandlers):
		_, _, err = c.each(ctx, path, c.handler)
	case string(format.BucketIndex), string(format.BucketSeq): // object makes them, unless copied as it was
		if c.asItWas() {
			err = c.bucket(ctx, path)
		}
	default:
		if !c.salvage { // the newer program that knows the bucket could not tell what it lacks
			err = c.bucket(ctx, path)
		}
	}
	return err
}

// dictionary copies a dictionary, and seals it if the collection is sealed anew. A dictionary that was in plain text
// then gets a new id, because its old id is a hash of its content. A dictionary that cannot be opened without a key is
// copied as it is.
func (c *collectionCopy) dictionary(tx *bolt.Tx, e pair) error {
	id, _ := format.ParseDictionaryKey(e.key) // 0 for a bad key, which is no dictionary's id
	dict, err := compress.Parse(c.name, id, e.value, c.r.opener())
	if err != nil && (c.sealing != nil || !errors.Is(err, seal.ErrSealed)) {
		return err
	}
	c.dicts[id] = id
	if c.sealing != nil {
		if dict.IsHashed() {
			c.dicts[id] = format.RandomID()
		}
		e.key = format.DictionaryKey(c.dicts[id])
		e.value = c.sealing.AppendSealed(nil, format.BucketDictionaries, c.name, format.DictionaryPlace(c.dicts[id]),
			format.DictionaryHeader, dict.Content)
	}
	return put(tx, c.path.to(format.BucketDictionaries), e)
}

// object copies the record of an object, with its entries in the indexes and in the changelog.
func (c *collectionCopy) object(tx *bolt.Tx, e pair) error {
	key := string(e.key)
	h, payload, err := format.ParseRecord(c.name, key, e.value)
	if err == nil {
		h, e.value, err = c.record(e.value, "", format.BucketObjects, key, h, payload)
	}
	if err == nil {
		err = put(tx, c.path.to(format.BucketObjects), e)
	}
	if err != nil || c.asItWas() {
		return err
	}
	for name := range c.st.indexes {
		b, err := c.path.to(format.BucketIndex).to([]byte(name)).make(tx)
		if err == nil {
			err = index.Put(b, key, h.Terms[name])
		}
		if err != nil {
			return err
		}
	}
	if c.st.feedSince == 0 || h.Seq < c.st.feedSince {
		return nil
	}
	b, err := c.path.to(format.BucketSeq).make(tx)
	if err != nil {
		return err
	}
	return b.Put(format.SeqKey(h.Seq), e.key)
}

// tombstone copies a tombstone.
func (c *collectionCopy) tombstone(tx *bolt.Tx, e pair) error {
	seq, _ := format.ParseSeqKey(e.key) // 0 for a bad key, which is no tombstone's number
	t, err := format.ParseTombstone(c.name, seq, e.value)
	if err == nil {
		_, e.value, err = c.record(e.value, t.Place(), format.BucketTombstones, t.Place(), t.Header, t.Payload)
	}
	if err != nil {
		return err
	}
	return put(tx, c.path.to(format.BucketTombstones), e)
}

// record returns the header and the bytes of a record for the copy: unchanged, or prefix followed by the record sealed
// anew. It fails if the record, or its dictionary, cannot be read.
func (c *collectionCopy) record(
	stored []byte, prefix string, bucket []byte, key string, h format.Header, payload []byte,
) (format.Header, []byte, error) {
	dict, known := c.dicts[h.Dictionary]
	switch {
	case h.Dictionary != 0 && !known:
		return h, nil, fmt.Errorf("record %s in collection %s: its dictionary is not there: %w", printable.Key(key), c.name,
			entry.ErrDamaged)
	case c.sealing == nil:
		return h, stored, c.r.opener().Verify(bucket, key, h, payload)
	case h.Unknown != 0:
		return h, nil, fmt.Errorf("record %s in collection %s is of version %d, which a newer program has written: %w",
			printable.Key(key), c.name, h.Unknown, entry.ErrIncompatible)
	}
	plain, err := c.r.opener().Payload(bucket, key, h, payload)
	if err != nil {
		return h, nil, err
	}
	terms, err := c.r.opener().Terms(key, h)
	if err != nil {
		return h, nil, err
	}
	h.Dictionary, h.Terms = dict, c.sealing.Tokens(c.name, terms)
	return h, c.sealing.AppendSealed([]byte(prefix), bucket, c.name, key, h, plain), nil
}

// handler copies the cursor of a durable handler. If a rebuild finds the cursor damaged, or the changelog incomplete,
// the handler begins anew.
func (c *collectionCopy) handler(tx *bolt.Tx, e pair) error {
	path := c.path.to(format.BucketHandlers)
	_, err := parsePlace(c.name, string(e.key), e.value)
	if err == nil && !c.behind[c.name] {
		return put(tx, path, e)
	}
	if !c.salvage {
		return err
	}
	b, err := path.make(tx)
	if err != nil {
		return err
	}
	return putPlace(b, c.name, string(e.key), again(c.st.NextSeq, ResetDamage))
}
