package changelog

import (
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

var buckets = [][]byte{format.BucketSeq, format.BucketTombstones, format.BucketCursors}

// Create creates the missing buckets of the changelog in the bucket of a collection.
func Create(b *bolt.Bucket) error {
	for _, name := range buckets {
		if _, err := b.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// Log reads the changelog of a collection in one transaction.
type Log struct {
	collection                         string
	objects, seqs, tombstones, cursors *bolt.Bucket
	times                              *bolt.Bucket // times is nil if no change has been dated
	marked, next                       uint64       // marked and next are State.Marked and NextSeq
}

// Change is a live object or a tombstone. Header, Payload and RecordKey are memory of the transaction.
type Change struct {
	format.Header
	Key       string
	Gone      bool   // Gone is true for a tombstone
	RecordKey string // RecordKey is the key that the record's checksum and sealing cover
	Payload   []byte // Payload may be compressed or sealed
}

// Open returns the changelog in the bucket b of a collection, or consumer.ErrNone if the collection keeps none.
func Open(b *bolt.Bucket, collection string, st State) (*Log, error) {
	l := &Log{collection: collection, objects: b.Bucket(format.BucketObjects), seqs: b.Bucket(format.BucketSeq),
		tombstones: b.Bucket(format.BucketTombstones), cursors: b.Bucket(format.BucketCursors),
		times: b.Bucket(format.BucketTimes), marked: st.Marked, next: st.NextSeq}
	switch {
	case !st.Kept():
		return nil, consumer.ErrNone
	case l.objects == nil:
		return nil, fmt.Errorf("collection %s has no objects bucket: %w", collection, entry.ErrDamaged)
	case l.seqs == nil || l.tombstones == nil || l.cursors == nil:
		return nil, fmt.Errorf("collection %s lacks a bucket of its changelog: %w", collection, entry.ErrDamaged)
	}
	return l, nil
}

// Read calls fn with the changes after an offset, in order, until fn returns false. It returns whether more changes
// follow. Live objects and tombstones never share a number.
func (l *Log) Read(after uint64, fn func(Change) (more bool, err error)) (more bool, err error) {
	from := string(format.SeqKey(after))
	live, gone := boltfile.ScanAfter(l.seqs, from), boltfile.ScanAfter(l.tombstones, from)
	liveSeq, key := live.Next()
	goneSeq, data := gone.Next()
	for more = true; liveSeq != nil || goneSeq != nil; {
		if !more {
			return true, nil
		}
		var c Change
		if goneSeq == nil || liveSeq != nil && string(liveSeq) < string(goneSeq) {
			c, err = l.named(liveSeq, key)
			liveSeq, key = live.Next()
		} else {
			c, err = l.tombstone(goneSeq, data)
			goneSeq, data = gone.Next()
		}
		if err == nil {
			more, err = fn(c)
		}
		if err != nil {
			return false, err
		}
	}
	return false, errors.Join(live.Err, gone.Err)
}

// named returns the object whose key the changelog has under seq, or ErrDamaged if its record has another number.
func (l *Log) named(seq, key []byte) (Change, error) {
	c, found, err := l.Live(string(key))
	want, ok := format.ParseSeqKey(seq)
	switch {
	case err != nil:
	case !found:
		err = fmt.Errorf("the changelog of collection %s names %s, which is not there: %w", l.collection,
			base.PrintableKey(string(key)), entry.ErrDamaged)
	case !ok || want != c.Seq:
		err = fmt.Errorf("the changelog of collection %s has %s at %x, and its record %d: %w", l.collection,
			base.PrintableKey(string(key)), seq, c.Seq, entry.ErrDamaged)
	}
	return c, err
}

// Live returns the object under a key, and whether there is one.
func (l *Log) Live(key string) (c Change, found bool, err error) {
	data := l.objects.Get([]byte(key))
	if data == nil {
		return c, false, nil
	}
	c, err = Live(l.collection, key, data)
	return c, err == nil, err
}

// Live returns the Change of a record in the bucket of objects.
func Live(collection, key string, data []byte) (c Change, err error) {
	c.Key, c.RecordKey = key, key
	c.Header, c.Payload, err = format.ParseRecord(collection, key, data)
	return c, err
}

func (l *Log) tombstone(seqKey, data []byte) (Change, error) {
	seq, ok := format.ParseSeqKey(seqKey)
	if !ok {
		return Change{}, fmt.Errorf("a tombstone of collection %s is under %x: %w", l.collection, seqKey, entry.ErrDamaged)
	}
	t, err := format.ParseTombstone(l.collection, seq, data)
	return Change{Header: t.Header, Key: t.Key, Gone: true, RecordKey: t.RecordKey(), Payload: t.Payload}, err
}

// Oldest returns the oldest change of a key with a sequence number from from to upTo.
func (l *Log) Oldest(key string, from, upTo uint64) (c Change, found bool, err error) {
	live, there, err := l.Live(key)
	switch {
	case err != nil || there && live.Seq < from: // tombstones of a key are older than its live object
		return c, false, err
	case there && live.Seq <= upTo:
		upTo = live.Seq
	default:
		there = false
	}
	gone := boltfile.ScanAfter(l.tombstones, string(format.SeqKey(from-1)))
	for seq, data := gone.Next(); seq != nil; seq, data = gone.Next() {
		if n, ok := format.ParseSeqKey(seq); ok && n > upTo {
			break
		}
		if c, err = l.tombstone(seq, data); err != nil || c.Key == key {
			return c, err == nil, err
		}
	}
	return live, there, gone.Err
}

// State is the state of the changelog in the info record of a collection.
type State struct {
	// NextSeq is the number of the next record or tombstone. It also numbers records without a changelog.
	NextSeq uint64
	// Since is the number from which on every record is in the changelog; 0 without a changelog.
	Since uint64
	// Lacks is the highest number of a delete that may be missing. A consumer with a lower offset is reset.
	Lacks      uint64
	Tombstones int
	// Retain is how long tombstones are kept for readers without a cursor; 0 keeps them for cursors only.
	Retain time.Duration
	// Marked is NextSeq after the last transaction that dated its changes; 0 if there is none.
	Marked uint64
	// ListedSeq is the number of the last change that does not continue the earlier states, for example from a list. Later
	// changes are events with ascending resourceVersions, from ListedRV on; it is empty if unknown.
	ListedSeq uint64
	ListedRV  string
}

// StateOf returns the state in an info record.
func StateOf(r *format.Info) State {
	return State{NextSeq: r.NextSeq, Since: r.FeedSince, Lacks: r.FeedLacks, Tombstones: r.Tombstones,
		Retain: max(r.Retain, 0), Marked: r.Marked, ListedSeq: r.ListedSeq, ListedRV: r.ListedRV}
}

// Store puts the state into an info record.
func (s *State) Store(r *format.Info) {
	r.NextSeq, r.FeedSince, r.FeedLacks, r.Tombstones, r.Retain = s.NextSeq, s.Since, s.Lacks, s.Tombstones, s.Retain
	r.Marked, r.ListedSeq, r.ListedRV = s.Marked, s.ListedSeq, s.ListedRV
}

// Kept reports whether there is a changelog.
func (s *State) Kept() bool { return s.Since != 0 }

// Has reports whether the changelog must have an entry for the record with that number.
func (s *State) Has(seq uint64) bool { return s.Kept() && seq >= s.Since }

// Last returns the number of the last change.
func (s *State) Last() uint64 { return s.NextSeq - 1 }

// Oldest returns the lowest offset after which no change is missing. There must be a changelog.
func (s *State) Oldest() uint64 { return max(s.Since-1, s.Lacks) }

// Break notes that changes up to now may be missing. It skips a number, to reset even a consumer at the last number.
func (s *State) Break() {
	s.Lacks = s.NextSeq
	s.NextSeq++
}

// Fits reports whether a changelog exists exactly if it has consumers. cursors are the cursors in the file.
func (s *State) Fits(cursors map[string]consumer.Position) bool {
	return s.Kept() == s.consumed(len(cursors))
}

func (s *State) consumed(cursors int) bool { return cursors > 0 || s.Retain > 0 }

func (s *State) next() uint64 {
	seq := s.NextSeq
	s.NextSeq++
	return seq
}
