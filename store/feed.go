package store

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// The change feed is the collection by sequence number: every live key once, at the number of its record, and a
// tombstone for each object that is gone. Who has come to some number finds what has changed since behind it, and
// nothing else, however many objects there are. It is kept while something consumes it: a durable handler
// (feed_places.go), or readers that are promised it (changes.go), from state.feedSince on: records that are older may
// have no entry, and a new handler reads them by key. A delete that is dropped from it moves state.feedLacks on, in the
// same transaction, and who has not come that far starts over.

// feedWriter keeps the feed of a collection in one write transaction. All of its methods do nothing on nil: there is no
// feed.
type feedWriter struct {
	w          *writer
	seqs       *bolt.Bucket
	tombstones *bolt.Bucket
	// tight: there is no room for what is retained for readers.
	tight bool
}

// newFeedWriter returns nil if the collection has no feed.
func newFeedWriter(w *writer) (f *feedWriter, err error) {
	if w.state.feedSince == 0 {
		return nil, nil
	}
	f = &feedWriter{w: w}
	if f.seqs, f.tombstones, err = w.c.feedBuckets(w.bucket, w.state); err != nil {
		return nil, err
	}
	if w.bucket.Bucket(format.BucketHandlers) == nil {
		return nil, fmt.Errorf("collection %s has no bucket for handlers: %w", w.c.name, entry.ErrDamaged)
	}
	f.seqs.FillPercent, f.tombstones.FillPercent = coldFill, coldFill // what is added is at the end
	return f, nil
}

// feedBuckets returns what the feed of a collection is read from.
func (r *reader) feedBuckets(b *bolt.Bucket, st state) (seqs, tombstones *bolt.Bucket, err error) {
	seqs, tombstones = b.Bucket(format.BucketSeq), b.Bucket(format.BucketTombstones)
	switch {
	case st.feedSince == 0:
		return nil, nil, ErrNoHandler
	case seqs == nil || tombstones == nil:
		return nil, nil, fmt.Errorf("collection %s lacks a bucket of its change feed: %w", r.name, entry.ErrDamaged)
	}
	return seqs, tombstones, nil
}

// createFeed makes the buckets that a feed needs.
func createFeed(b *bolt.Bucket) error {
	for _, name := range [][]byte{format.BucketSeq, format.BucketTombstones, format.BucketHandlers} {
		if _, err := b.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// beginFeed has the collection keep its feed from now on, if it does not already.
func (w *writer) beginFeed() error {
	if w.feed == nil {
		w.state.feedSince = w.state.NextSeq
	}
	return createFeed(w.bucket)
}

// endFeed drops the feed.
func (w *writer) endFeed() error {
	w.feed, w.state.tombstones, w.state.feedSince, w.state.feedLacks = nil, 0, 0, 0
	return w.c.dropFeed(w.bucket)
}

// breakFeed says that the feed may lack something of before. It leaves a number out, so that who has come to the last
// one is told so, too.
func (st *state) breakFeed() {
	st.feedLacks = st.NextSeq
	st.NextSeq++
}

// dropFeed removes them.
func (c *Collection) dropFeed(b *bolt.Bucket) error {
	c.store.tallies.drop(b.Tx(), tallied{c.name, string(format.BucketTombstones)})
	for _, name := range [][]byte{format.BucketSeq, format.BucketTombstones, format.BucketHandlers} {
		if b.Bucket(name) == nil {
			continue
		}
		if err := b.DeleteBucket(name); err != nil {
			return err
		}
	}
	return nil
}

// seqOf returns the number that a record of x gets: the next one, unless nothing has changed but how the object is
// stored.
func (w *writer) seqOf(x *memtable.Write, old stored) uint64 {
	if w.feed != nil && x.SameObject && old.found {
		return old.Seq
	}
	return w.nextSeq()
}

func (w *writer) nextSeq() uint64 {
	seq := w.state.NextSeq
	w.state.NextSeq++
	return seq
}

// file makes seq the place of key, whose record was old.
func (f *feedWriter) file(key string, seq uint64, old stored) error {
	if f == nil {
		return nil
	}
	if old.found && old.Seq != seq {
		if err := f.seqs.Delete(format.SeqKey(old.Seq)); err != nil {
			return err
		}
	}
	return f.seqs.Put(format.SeqKey(seq), []byte(key))
}

// bury puts a tombstone for the object of old, which x removes or replaces by another object; x may be nil.
func (f *feedWriter) bury(key string, old stored, x *memtable.Write) error {
	if f == nil {
		return nil
	}
	if err := f.seqs.Delete(format.SeqKey(old.Seq)); err != nil {
		return err
	}
	t := format.Tombstone{At: f.w.c.store.steadyNow(), Key: key}
	if last := x.LastOf(old.UID); last != nil {
		t.Header, t.Payload = format.Header{UID: old.UID, RV: last.RV, Encoding: f.w.c.codec.Name()}, last.Payload
	} else {
		t.Header = format.Header{UID: old.UID, RV: old.RV, Encoding: old.Encoding}
		// Without compression: it must not keep a dictionary.
		b, err := f.w.c.body(old.objects, key, old.Header, old.payload)
		if err == nil {
			b, err = f.w.c.plain(key, b, nil)
		}
		switch {
		case err == nil:
			t.Payload = b.payload
		case isDamaged(err):
			return err
		default:
			t.Encoding = "" // nobody can read it
		}
	}
	t.Seq = f.w.nextSeq()
	f.w.state.tombstones++
	f.w.tally(format.BucketTombstones, format.SeqKey(t.Seq), 1)
	return f.tombstones.Put(format.SeqKey(t.Seq), t.Append(f.w.c.appendRecord))
}
