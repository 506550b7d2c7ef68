package store

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// The changelog is an index of the collection by sequence number: every live key once, at the number of its record, and
// a tombstone for each deleted object. A consumer finds the changes since its offset behind that number, however many
// objects there are. The changelog is kept while it has a consumer: a durable handler (feed_places.go), or readers
// (changes.go). It begins at state.feedSince: older records may have no entry, and a new handler reads them by key. If
// a tombstone is dropped, state.feedLacks is raised in the same transaction, and consumers behind it begin anew.

// feedWriter updates the changelog of a collection in one write transaction. It is nil if the collection keeps none:
// then its methods do nothing.
type feedWriter struct {
	w          *writer
	seqs       *bolt.Bucket
	tombstones *bolt.Bucket
	// tight says that the file is full: settle drops tombstones that are retained for readers.
	tight bool
}

// newFeedWriter returns nil if the collection keeps no changelog. It fails if a bucket of the changelog is missing.
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
	f.seqs.FillPercent, f.tombstones.FillPercent = coldFill, coldFill // entries are added at the end
	return f, nil
}

// feedBuckets returns the buckets of the changelog. It fails with ErrNoHandler if the collection keeps none.
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

// createFeed creates the buckets of the changelog.
func createFeed(b *bolt.Bucket) error {
	for _, name := range [][]byte{format.BucketSeq, format.BucketTombstones, format.BucketHandlers} {
		if _, err := b.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// beginFeed makes the collection keep a changelog from now on, if it does not already.
func (w *writer) beginFeed() error {
	if w.feed == nil {
		w.state.feedSince = w.state.NextSeq
	}
	return createFeed(w.bucket)
}

// endFeed drops the changelog, and the collection keeps none from now on.
func (w *writer) endFeed() error {
	w.feed, w.state.tombstones, w.state.feedSince, w.state.feedLacks = nil, 0, 0, 0
	return w.c.dropFeed(w.bucket)
}

// breakFeed records that the changelog may lack changes up to now. It skips a number, so that a consumer at the last
// number begins anew too.
func (st *state) breakFeed() {
	st.feedLacks = st.NextSeq
	st.NextSeq++
}

// dropFeed removes the buckets of the changelog.
func (c *Collection) dropFeed(b *bolt.Bucket) error {
	c.store.counts.Drop(b.Tx(), c.name, format.BucketTombstones)
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

// seqOf returns the sequence number for the record of x: the next one, or, if there is a changelog and only the stored
// form of the object has changed, the number of the old record.
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

// file moves the changelog entry of key from the number of its old record to seq.
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

// bury adds a tombstone for the object of old. x is the write that deletes it or replaces it by another object; x may
// be nil.
func (f *feedWriter) bury(key string, old stored, x *memtable.Write) error {
	if f == nil {
		return nil
	}
	if err := f.seqs.Delete(format.SeqKey(old.Seq)); err != nil {
		return err
	}
	t := format.Tombstone{At: f.w.c.store.file.Steady(), Key: key}
	if last := x.LastOf(old.UID); last != nil {
		t.Header, t.Payload = format.Header{UID: old.UID, RV: last.RV, Encoding: f.w.c.codec.Name()}, last.Payload
	} else {
		t.Header = format.Header{UID: old.UID, RV: old.RV, Encoding: old.Encoding}
		// A tombstone is not compressed, so that it needs no dictionary.
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
			t.Encoding = "" // this program cannot read the last state
		}
	}
	t.Seq = f.w.nextSeq()
	f.w.state.tombstones++
	f.w.tally(format.BucketTombstones, format.SeqKey(t.Seq), 1)
	return f.tombstones.Put(format.SeqKey(t.Seq), t.Append(f.w.c.appendRecord))
}
