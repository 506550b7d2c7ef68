package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/internal/format"
)

// stepEntries and stepBytes bound the entries that one transaction verifies.
const stepEntries = 1000

var errDropped = errors.New("the collection is gone")

type collection struct {
	*content
	name   string
	sealer *crypt.Sealer
	// dictionaries holds the checked dictionaries by id; true for a usable one.
	dictionaries map[uint64]bool
}

func (c *collection) problem(format string, args ...any) {
	c.content.problem("collection %s: "+format, append([]any{c.name}, args...)...)
}

type state struct {
	format.Info
	log                      changelog.State
	bucket, objects, indexes *bolt.Bucket
}

func (c *collection) view(ctx context.Context, fn func(s state) error) error {
	return c.content.view(ctx, func(tx *bolt.Tx) error {
		root := tx.Bucket(format.BucketLarder)
		if root == nil || root.Bucket([]byte(c.name)) == nil {
			return errDropped
		}
		s := state{bucket: root.Bucket([]byte(c.name))}
		s.objects, s.indexes = s.bucket.Bucket(format.BucketObjects), s.bucket.Bucket(format.BucketIndex)
		data := s.bucket.Get(format.KeyInfo)
		if data == nil {
			return fmt.Errorf("collection %s has no info record: %w", c.name, entry.ErrDamaged)
		}
		if s.objects == nil {
			return fmt.Errorf("collection %s has no objects bucket: %w", c.name, entry.ErrDamaged)
		}
		var err error
		if s.Info, err = format.ParseInfo(c.name, data); err != nil {
			return err
		}
		s.log = changelog.StateOf(&s.Info)
		return fn(s)
	})
}

func (c *collection) check(ctx context.Context) error {
	var indexes []string
	err := c.view(ctx, func(s state) error {
		indexes = slices.Sorted(maps.Keys(s.Indexes))
		c.checkInfo(&s.Info)
		c.LeftOut += len(s.Info.LeftOut)
		c.LeftOutMore = c.LeftOutMore || s.Info.LeftOutMore
		if err := c.checkDictionaries(s); err != nil {
			return err
		}
		c.checkNewest(s)
		for _, small := range [][]byte{format.BucketDictionaries, format.BucketCursors} {
			if b := s.bucket.Bucket(small); b != nil {
				if err := c.pages(ctx, b, nil, nil); err != nil {
					return err
				}
			}
		}
		return c.checkIndexBuckets(s)
	})
	if err == nil {
		err = c.each(ctx, func(s state) *bolt.Bucket { return s.objects }, c.checkRecord)
	}
	if err == nil {
		err = c.view(ctx, func(s state) error { return c.count(s.objects, "objects", s.Info.Objects) })
	}
	if err == nil {
		err = c.checkChangelog(ctx)
	}
	for _, name := range indexes {
		if err == nil {
			err = c.each(ctx, func(s state) *bolt.Bucket { return s.index(name) },
				func(s state, k, v []byte) int { return c.checkIndexEntry(s, name, k, v) })
		}
	}
	return err
}

func (s state) index(name string) *bolt.Bucket {
	if s.indexes == nil {
		return nil
	}
	return s.indexes.Bucket([]byte(name))
}

// each calls check for every entry of the bucket that of returns. It reads pages of entries, one transaction for a
// page. check returns the number of bytes that it has read besides the entry.
func (c *collection) each(
	ctx context.Context, of func(s state) *bolt.Bucket, check func(s state, k, v []byte) int,
) error {
	for after, more := "", true; more; {
		err := c.view(ctx, func(s state) error {
			more = false
			b := of(s)
			if b == nil { // An earlier check has reported the missing bucket.
				return nil
			}
			keys := boltfile.ScanAfter(b, after)
			low, high, n := []byte(after), []byte(nil), 0
			for k, v := keys.Next(); k != nil && !more; k, v = keys.Next() {
				c.read += len(k) + len(v) + check(s, k, v)
				if n++; n == stepEntries || c.read >= stepBytes {
					high, more = k, true
				}
			}
			if after = string(high); keys.Err != nil {
				return keys.Err
			}
			return c.pages(ctx, b, low, high)
		})
		if err == nil {
			err = c.rest(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// count adds a problem if the number of keys in the bucket differs from says, the number in the info record.
func (c *collection) count(b *bolt.Bucket, of string, says int) error {
	n := 0
	keys := boltfile.ScanAfter(b, "")
	for k, _ := keys.Next(); k != nil; k, _ = keys.Next() {
		n++
	}
	if keys.Err == nil && n != says {
		c.problem("it has %d %s, and its info record says %d", n, of, says)
	}
	return keys.Err
}

func (c *collection) checkInfo(info *format.Info) {
	if id := info.Identity().ID(); id != c.name {
		c.problem("it holds the identity of collection %s", id)
	}
	if info.Complete && info.ResourceVersion == "" && info.MustRelist == "" {
		c.problem("it is complete, but has no resourceVersion")
	}
	if info.ResourceVersion != "" && !entry.ComparableRV(info.ResourceVersion) {
		c.problem("its resourceVersion %q cannot be compared with others", info.ResourceVersion)
	}
}

// checkNewest verifies that the newest objects of the info record are stored at their resourceVersions.
func (c *collection) checkNewest(s state) {
	for _, ref := range s.Newest {
		h, _, found, err := c.stored(s, ref.Key)
		if err == nil && (!found || h.UID != ref.UID || h.RV != ref.RV) {
			c.problem("the newest objects name %q at resourceVersion %s, which is not what is stored", ref.Key, ref.RV)
		}
	}
}

// stored returns the record of an object. Callers ignore a damaged record, because checkRecord reports it.
func (c *collection) stored(s state, key string) (h format.Header, payload []byte, found bool, err error) {
	data := s.objects.Get([]byte(key))
	if data == nil {
		return h, nil, false, nil
	}
	h, payload, err = format.ParseRecord(c.name, key, data)
	return h, payload, true, err
}

// checkRecord verifies a stored record, and that the indexes have an entry for each of the record's index terms.
func (c *collection) checkRecord(s state, k, data []byte) int {
	c.Objects++
	key := string(k)
	h, payload, err := format.ParseRecord(c.name, key, data)
	if err == nil {
		if h.SealedBy != 0 && c.sealer.Locked() {
			c.Sealed++
		}
		err = c.sealer.Verify(format.BucketObjects, key, h, payload)
	}
	switch {
	case format.IsDamagedRecord(err):
		c.File.Report(err)
		c.Report.problem("collection %s: %v", c.name, err)
		return 0
	case err != nil:
		c.problem("%v", err)
		return 0
	}
	if h.Seq == 0 || h.Seq >= s.NextSeq {
		c.problem("record %s has sequence number %d, and the next is %d", base.PrintableKey(key), h.Seq, s.NextSeq)
	}
	if h.Dictionary != 0 {
		c.checkDictionary(s, h.Dictionary)
	}
	c.checkFiled(s, key, h)
	for name, values := range h.Terms {
		entries := s.index(name)
		if entries == nil || !s.Indexes[name].Ready {
			continue
		}
		for _, value := range values {
			if !engine.HasTerm(entries, value, key) {
				c.problem("record %s is not in index %q, which it is filed in", base.PrintableKey(key), name)
			}
		}
	}
	return 0
}

// checkIndexBuckets verifies that the info record names exactly the existing index buckets.
func (c *collection) checkIndexBuckets(s state) error {
	if s.indexes == nil {
		return fmt.Errorf("collection %s has no index bucket: %w", c.name, entry.ErrDamaged)
	}
	for name := range s.Indexes {
		if s.index(name) == nil {
			c.problem("index %q has no bucket", name)
		}
	}
	return s.indexes.ForEachBucket(func(name []byte) error {
		if _, known := s.Indexes[string(name)]; !known {
			c.problem("there is a bucket of index %q, which the info record does not know", name)
		}
		return nil
	})
}

// checkIndexEntry verifies an index entry against the record's header, and returns the size of the record's payload.
func (c *collection) checkIndexEntry(s state, name string, k, v []byte) int {
	c.IndexEntries++
	value, key, err := format.ParseIndexEntry(k, v)
	if err != nil {
		c.problem("index %q: %v", name, err)
		return 0
	}
	h, payload, found, err := c.stored(s, key)
	switch {
	case err != nil: // checkRecord reports a damaged record.
	case !found:
		c.problem("index %q files %s, which is not there", name, base.PrintableKey(key))
	case !slices.Contains(h.Terms[name], value):
		c.problem("index %q files %s under a value that its record does not have", name, base.PrintableKey(key))
	}
	return len(payload)
}

func (c *collection) checkDictionaries(s state) error {
	dicts := s.bucket.Bucket(format.BucketDictionaries)
	if dicts == nil {
		return nil
	}
	return dicts.ForEach(func(k, _ []byte) error {
		if id, ok := format.ParseDictionaryKey(k); ok {
			c.checkDictionary(s, id)
		} else {
			c.problem("a dictionary has the key %s", base.PrintableKey(string(k)))
		}
		return nil
	})
}

func (c *collection) checkDictionary(s state, id uint64) {
	if _, known := c.dictionaries[id]; known {
		return
	}
	_, err := crypt.StoredDictionary(s.bucket, c.name, id, c.sealer)
	if c.dictionaries[id] = err == nil || crypt.IsSealed(err); !c.dictionaries[id] {
		c.problem("%v; the objects that are compressed with it cannot be read", err)
	}
}

// checkChangelog verifies that changelog entries name stored records, that tombstones are readable, and that no cursor
// is ahead of the changelog.
func (c *collection) checkChangelog(ctx context.Context) error {
	err := c.view(ctx, c.checkHandlers)
	if err == nil {
		err = c.each(ctx, func(s state) *bolt.Bucket { return s.bucket.Bucket(format.BucketSeq) }, c.checkSeq)
	}
	if err == nil {
		err = c.each(ctx, func(s state) *bolt.Bucket { return s.bucket.Bucket(format.BucketTombstones) }, c.checkTombstone)
	}
	if err == nil {
		err = c.view(ctx, func(s state) error {
			if b := s.bucket.Bucket(format.BucketTombstones); b != nil {
				return c.count(b, "tombstones", s.Tombstones)
			}
			return nil
		})
	}
	return err
}

// checkHandlers verifies that the changelog has its buckets, and that no durable handler's cursor is ahead of it.
func (c *collection) checkHandlers(s state) error {
	have := 0
	for _, name := range [][]byte{format.BucketSeq, format.BucketTombstones, format.BucketCursors} {
		if s.bucket.Bucket(name) != nil {
			have++
		}
	}
	switch {
	case !s.log.Kept() && have > 0:
		c.problem("it keeps no changelog, but has %d of its buckets", have)
		return nil
	case !s.log.Kept():
		return nil
	case have < 3:
		c.problem("it keeps a changelog, but has only %d of its 3 buckets", have)
		return nil
	}
	return s.bucket.Bucket(format.BucketCursors).ForEach(func(name, data []byte) error {
		cursor, err := format.ParseCursor(c.name, string(name), data)
		switch {
		case err != nil:
			c.problem("%v", err)
		case cursor.Seq >= s.NextSeq:
			c.problem("the durable handler %q has acknowledged number %d, and the next is %d", name, cursor.Seq, s.NextSeq)
		}
		return nil
	})
}

func (c *collection) checkSeq(s state, k, key []byte) int {
	seq, ok := format.ParseSeqKey(k)
	h, payload, found, err := c.stored(s, string(key))
	switch {
	case !ok:
		c.problem("the changelog has a number of %d bytes", len(k))
	case err != nil: // checkRecord reports a damaged record.
	case !found:
		c.problem("the changelog names %s, which is not there", base.PrintableKey(string(key)))
	case h.Seq != seq:
		c.problem("the changelog has %s at number %d, and its record says %d", base.PrintableKey(string(key)), seq, h.Seq)
	}
	return len(payload)
}

func (c *collection) checkTombstone(_ state, k, v []byte) int {
	seq, ok := format.ParseSeqKey(k)
	if !ok {
		c.problem("a tombstone has a number of %d bytes", len(k))
		return 0
	}
	t, err := format.ParseTombstone(c.name, seq, v)
	if err == nil {
		err = c.sealer.Verify(format.BucketTombstones, t.RecordKey(), t.Header, t.Payload)
	}
	if err != nil {
		c.problem("%v", err)
	}
	return 0
}

// checkFiled adds a problem if a record that needs a changelog entry has none.
func (c *collection) checkFiled(s state, key string, h format.Header) {
	seqs := s.bucket.Bucket(format.BucketSeq)
	if !s.log.Has(h.Seq) || seqs == nil {
		return
	}
	if string(seqs.Get(format.SeqKey(h.Seq))) != key {
		c.problem("record %s has sequence number %d, where the changelog does not have it", base.PrintableKey(key), h.Seq)
	}
}
