package check

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/format"
)

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
