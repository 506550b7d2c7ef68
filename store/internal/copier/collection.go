package copier

import (
	"context"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/internal/format"
)

// collection copies one collection. An unchanged copy copies all buckets, and only verifies the records. Otherwise the
// dictionaries, records, tombstones and cursors are copied, and the indexes, the changelog entries and the info record
// are made from them.
type collection struct {
	*Copier
	name   string
	path   bucketPath
	sealer *crypt.Sealer // sealer opens (decrypts) the records of the old file.
	// info becomes the info record of the copy. An unchanged copy has the old info record instead.
	info format.Info
	log  changelog.State // log becomes a part of info at the end.
	// fresh seals the records of the copy; nil if the collection is not resealed.
	fresh *crypt.Sealer
	// dicts maps the ids of dictionaries in the old file to their ids in the copy.
	dicts map[uint64]uint64
}

func (c *Copier) collection(ctx context.Context, name string) error {
	if c.unsafe[name] {
		return c.lose(name, fmt.Errorf("its branch pages: %w", entry.ErrDamaged))
	}
	one := &collection{Copier: c, name: name, path: bucketPath{format.BucketLarder, []byte(name)},
		sealer: c.Keys.Sealer(name), dicts: map[uint64]uint64{}}
	err := c.old.View(one.begin)
	if isDamaged(err) {
		return c.lose(name, err)
	}
	if err != nil {
		return err
	}
	return one.copy(ctx)
}

// begin reads the info record, and sets fresh if the collection must be resealed.
func (c *collection) begin(tx *bolt.Tx) error {
	b := tx.Bucket(format.BucketLarder).Bucket([]byte(c.name))
	if b == nil || b.Get(format.KeyInfo) == nil {
		return fmt.Errorf("collection %s has no info record: %w", c.name, entry.ErrDamaged)
	}
	var err error
	if c.info, err = format.ParseInfo(c.name, b.Get(format.KeyInfo)); err != nil {
		return err
	}
	c.log = changelog.StateOf(&c.info)
	if c.keysLost && c.info.Sealed {
		return fmt.Errorf("it is sealed, and the data keys: %w", entry.ErrDamaged)
	}
	if c.Fresh != nil && (c.info.Sealed || c.Seals(c.info.Identity().GroupResource())) {
		c.fresh = c.Fresh.Sealer(c.name)
		if err := c.fresh.Begin(true, false, false); err != nil {
			return err
		}
		c.info.Sealed, c.info.PlainText = true, false
	}
	return nil
}

// asItWas reports whether the copy is unchanged. An unchanged copy includes entries that only a newer program knows.
func (c *collection) asItWas() bool { return c.fresh == nil && !c.Salvage }

// copy copies the collection. Dictionaries are copied first, because records need their new ids, then records and
// tombstones, then the other buckets. The info record is written last, because it depends on the copied entries.
func (c *collection) copy(ctx context.Context) error {
	buckets, err := c.values(ctx, c.path, func(pair) bool { return !c.Salvage })
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
	c.info.Dictionary = c.dicts[c.info.Dictionary]
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
	return c.Write(c.finish)
}

// finish creates the required buckets that have no entries, and writes the info record.
func (c *collection) finish(tx *bolt.Tx) error {
	needed := []bucketPath{c.path.to(format.BucketObjects), c.path.to(format.BucketIndex)}
	for index := range c.info.Indexes {
		needed = append(needed, c.path.to(format.BucketIndex).to([]byte(index)))
	}
	if c.log.Kept() {
		needed = append(needed, c.path.to(format.BucketSeq), c.path.to(format.BucketTombstones),
			c.path.to(format.BucketCursors))
	}
	for _, path := range needed {
		if _, err := path.make(tx); err != nil {
			return err
		}
	}
	b, err := c.path.make(tx)
	if err != nil {
		return err
	}
	c.info.Newest = slices.DeleteFunc(c.info.Newest, func(ref format.Ref) bool {
		return b.Bucket(format.BucketObjects).Get([]byte(ref.Key)) == nil
	})
	c.log.Store(&c.info)
	data, err := format.AppendInfo(nil, c.name, &c.info)
	if err != nil {
		return err
	}
	return b.Put(format.KeyInfo, data)
}

// objects copies the records. If any record is lost, the collection must be relisted.
func (c *collection) objects(ctx context.Context) error {
	expected := c.info.Objects
	copied, whole, err := c.each(ctx, c.path.to(format.BucketObjects), c.object)
	if err != nil || whole && copied == expected {
		return err
	}
	c.info.Objects, c.info.MustRelist = copied, format.MustRelistDamaged
	return c.lose(c.name, fmt.Errorf("%d of %d objects are left: %w", copied, expected, entry.ErrDamaged))
}

// tombstones copies the tombstones. If any tombstone is lost, readers of the changelog must start over.
func (c *collection) tombstones(ctx context.Context) error {
	if !c.log.Kept() {
		return nil
	}
	expected := c.log.Tombstones
	copied, whole, err := c.each(ctx, c.path.to(format.BucketTombstones), c.tombstone)
	if err != nil {
		return err
	}
	c.log.Tombstones = copied
	if !whole || copied < expected {
		c.Behind[c.name] = true
		err = c.tolerate(fmt.Errorf("collection %s has %d of %d tombstones: %w", c.name, copied, expected, entry.ErrDamaged))
	}
	if c.Behind[c.name] {
		c.log.Break()
	}
	return err
}

func (c *collection) rest(ctx context.Context, name []byte) (err error) {
	switch path := c.path.to(name); string(name) {
	case string(format.BucketObjects), string(format.BucketTombstones), string(format.BucketDictionaries):
	case string(format.BucketCursors):
		_, _, err = c.each(ctx, path, c.cursor)
	case string(format.BucketIndex), string(format.BucketSeq): // object writes them, unless asItWas.
		if c.asItWas() {
			err = c.bucket(ctx, path)
		}
	default:
		if !c.Salvage { // A newer program's bucket with lost entries would mislead that program.
			err = c.bucket(ctx, path)
		}
	}
	return err
}

// dictionary copies a dictionary, and seals it if the collection is resealed. An unsealed dictionary then gets a new
// id, because its old id is a hash of its content. In an unchanged copy, a dictionary that cannot be opened for lack of
// a key is copied without verification.
func (c *collection) dictionary(tx *bolt.Tx, e pair) error {
	id, _ := format.ParseDictionaryKey(e.key) // The id is 0 for a bad key; no dictionary has this id.
	dict, err := crypt.ParseDictionary(c.name, id, e.value, c.sealer)
	if err != nil && (c.fresh != nil || !crypt.IsSealed(err)) {
		return err
	}
	c.dicts[id] = id
	if c.fresh != nil {
		if dict.IsHashed() {
			c.dicts[id] = format.RandomID()
		}
		e.key = format.DictionaryKey(c.dicts[id])
		e.value = c.fresh.Append(nil, format.BucketDictionaries, format.DictionaryRecordKey(c.dicts[id]),
			format.DictionaryHeader, dict.Content)
	}
	return put(tx, c.path.to(format.BucketDictionaries), e)
}

func (c *collection) object(tx *bolt.Tx, e pair) error {
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
	for name := range c.info.Indexes {
		b, err := c.path.to(format.BucketIndex).to([]byte(name)).make(tx)
		if err == nil {
			err = engine.PutTerms(b, key, h.Terms[name])
		}
		if err != nil {
			return err
		}
	}
	if !c.log.Has(h.Seq) {
		return nil
	}
	b, err := c.path.to(format.BucketSeq).make(tx)
	if err != nil {
		return err
	}
	return b.Put(format.SeqKey(h.Seq), e.key)
}

func (c *collection) tombstone(tx *bolt.Tx, e pair) error {
	seq, _ := format.ParseSeqKey(e.key) // The number is 0 for a bad key; no tombstone has this number.
	t, err := format.ParseTombstone(c.name, seq, e.value)
	if err == nil {
		_, e.value, err = c.record(e.value, t.RecordKey(), format.BucketTombstones, t.RecordKey(), t.Header, t.Payload)
	}
	if err != nil {
		return err
	}
	return put(tx, c.path.to(format.BucketTombstones), e)
}

// record returns the header and the bytes of a record for the copy: either unchanged, or prefix followed by the
// resealed record. It fails if the record or its dictionary is unreadable.
func (c *collection) record(
	stored []byte, prefix string, bucket []byte, key string, h format.Header, payload []byte,
) (format.Header, []byte, error) {
	dict, known := c.dicts[h.Dictionary]
	switch {
	case h.Dictionary != 0 && !known:
		return h, nil, fmt.Errorf("record %s in collection %s: its dictionary is not there: %w",
			base.PrintableKey(key), c.name, entry.ErrDamaged)
	case c.fresh == nil:
		return h, stored, c.sealer.Verify(bucket, key, h, payload)
	case h.Unknown != 0:
		return h, nil, fmt.Errorf("record %s in collection %s is of version %d, which a newer program has written: %w",
			base.PrintableKey(key), c.name, h.Unknown, entry.ErrIncompatible)
	}
	plain, err := c.sealer.Payload(bucket, key, h, payload)
	if err != nil {
		return h, nil, err
	}
	terms, err := c.sealer.Terms(key, h)
	if err != nil {
		return h, nil, err
	}
	h.Dictionary, h.Terms = dict, c.fresh.Store(terms)
	return h, c.fresh.Append([]byte(prefix), bucket, key, h, plain), nil
}

// cursor copies a cursor. With Salvage, it resets the cursor if the cursor is damaged or the changelog is incomplete.
func (c *collection) cursor(tx *bolt.Tx, e pair) error {
	path := c.path.to(format.BucketCursors)
	_, err := format.ParseCursor(c.name, string(e.key), e.value)
	if err != nil && !c.Salvage {
		return err
	}
	if err != nil || c.Behind[c.name] {
		anew := c.log.Anew(consumer.ResetDamage)
		if e.value, err = format.AppendCursor(nil, c.name, string(e.key), anew); err != nil {
			return err
		}
	}
	return put(tx, path, e)
}
