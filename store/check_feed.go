package store

import (
	"bytes"
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/format"
)

// checkFeed verifies the changelog: that its entries name stored records, its tombstones, and the handlers' cursors.
func (c *checker) checkFeed(ctx context.Context) error {
	if err := c.view(ctx, c.checkHandlers); err != nil {
		return err
	}
	if err := c.countTombstones(ctx); err != nil {
		return err
	}
	for bucket, check := range map[string]func(b *bolt.Bucket, k, v []byte) int{
		string(format.BucketSeq): c.checkSeq, string(format.BucketTombstones): c.checkTombstone,
	} {
		err := c.pages(ctx, func(b *bolt.Bucket, after []byte) ([]byte, error) { return c.feedPage(b, bucket, after, check) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkHandlers(b *bolt.Bucket) error {
	st, err := getState(b, c.name)
	if err != nil {
		return err
	}
	have := 0
	for _, name := range [][]byte{format.BucketSeq, format.BucketTombstones, format.BucketHandlers} {
		if b.Bucket(name) != nil {
			have++
		}
	}
	switch {
	case st.feedSince == 0 && have > 0:
		c.problem("it keeps no change feed, but has %d of its buckets", have)
		return nil
	case st.feedSince == 0:
		return nil
	case have < 3:
		c.problem("it keeps a change feed, but has only %d of its 3 buckets", have)
		return nil
	}
	places, err := getPlaces(b, c.name)
	if err != nil {
		c.problem("%v", err)
	}
	for name, place := range places {
		if place.Seq >= st.NextSeq {
			c.problem("the durable handler %q has acknowledged number %d, and the next is %d", name, place.Seq, st.NextSeq)
		}
	}
	return nil
}

// feedPage verifies a page of a bucket of the changelog. It calls check for each entry; check returns how many bytes it
// has read beside the entry.
func (c *checker) feedPage(
	b *bolt.Bucket, bucket string, after []byte, check func(b *bolt.Bucket, k, v []byte) int,
) (end []byte, err error) {
	feed := b.Bucket([]byte(bucket))
	if feed == nil {
		return nil, nil
	}
	cur := feed.Cursor()
	n := 0
	for k, v := seekAfter(cur, string(after)); k != nil; k, v = cur.Next() {
		looked := check(b, k, v)
		if n++; c.fills(n, len(k)+len(v)+looked) {
			return bytes.Clone(k), nil
		}
	}
	return nil, nil
}

func (c *checker) checkSeq(b *bolt.Bucket, k, key []byte) int {
	objects, err := c.objects(b)
	if err != nil {
		return 0 // checkReferences reports it
	}
	seq, ok := format.ParseSeqKey(k)
	have, err := c.stored(objects, string(key))
	switch {
	case !ok:
		c.problem("the change feed has a number of %d bytes", len(k))
	case err != nil: // recordPage reports it
	case !have.found:
		c.problem("the change feed names %s, which is not there", printable.Key(string(key)))
	case have.Seq != seq:
		c.problem("the change feed has %s at number %d, and its record says %d", printable.Key(string(key)), seq, have.Seq)
	}
	return len(have.payload)
}

func (c *checker) checkTombstone(_ *bolt.Bucket, k, v []byte) int {
	seq, ok := format.ParseSeqKey(k)
	if !ok {
		c.problem("a tombstone has a number of %d bytes", len(k))
		return 0
	}
	t, err := format.ParseTombstone(c.name, seq, v)
	if err == nil {
		err = c.verifySealed(format.BucketTombstones, t.Place(), t.Header, t.Payload)
	}
	if err != nil {
		c.problem("%v", err)
	}
	return 0
}

// checkFiled adds a problem if the changelog should have an entry for the record and has none.
func (c *checker) checkFiled(b *bolt.Bucket, st state, key string, h format.Header) {
	seqs := b.Bucket(format.BucketSeq)
	if st.feedSince == 0 || h.Seq < st.feedSince || seqs == nil {
		return
	}
	if string(seqs.Get(format.SeqKey(h.Seq))) != key {
		c.problem("record %s has sequence number %d, where the change feed does not have it", printable.Key(key), h.Seq)
	}
}
