package changelog

import (
	"bytes"
	"errors"
	"math"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// fill is bbolt's FillPercent of the buckets that grow at their end.
const fill = 0.95

// Outside gives a Writer access to the collection and its store.
type Outside struct {
	MaxTombstones int
	Now           func() boltfile.Times
	// First is true if the collection has never been complete: the transaction writes existing objects, not changes.
	First bool
	// AppendRecord appends a record of the collection, sealed if the collection is sealed.
	AppendRecord func(dst, bucket []byte, key string, h format.Header, payload []byte) []byte
}

// Writer updates the changelog of a collection, if it has one, in a write transaction. Store the State at the end.
type Writer struct {
	collection string
	b          *bolt.Bucket // b is the bucket of the collection
	state      *State
	cursors    *Snapshot // cursors is nil if the changelog has no consumer
	out        Outside
	log        *Log   // log is nil without a changelog
	first      uint64 // first is the first number that the transaction assigns
	broken     bool   // broken is true after Break
}

// NewWriter returns a Writer that changes st. Call it in the transaction, so that it sees the cursors after the
// previous transaction. It fails if a bucket of the changelog is missing.
func NewWriter(b *bolt.Bucket, collection string, st *State, cursors *Cursors, out Outside) (*Writer, error) {
	w := &Writer{collection: collection, b: b, state: st, cursors: cursors.snapshot(), out: out, first: st.NextSeq}
	log, err := Open(b, collection, *st)
	switch {
	case errors.Is(err, consumer.ErrNone):
		return w, nil
	case err != nil:
		return nil, err
	}
	w.log = log
	log.seqs.FillPercent, log.tombstones.FillPercent = fill, fill
	return w, nil
}

// Kept reports whether the collection keeps a changelog.
func (w *Writer) Kept() bool { return w.log != nil }

func (w *Writer) begin() error {
	if w.log == nil {
		w.state.Since = w.state.NextSeq
	}
	return Create(w.b)
}

func (w *Writer) end() error {
	w.log = nil
	return drop(w.b, w.state)
}

func drop(b *bolt.Bucket, st *State) error {
	st.Tombstones, st.Since, st.Lacks, st.Marked = 0, 0, 0, 0
	for _, name := range append([][]byte{format.BucketTimes}, buckets...) {
		if b.Bucket(name) == nil {
			continue
		}
		if err := b.DeleteBucket(name); err != nil {
			return err
		}
	}
	return nil
}

// Renew drops the changelog, and begins a new one if it has consumers. It resets all cursors, in the file and in
// cursors. Call it if the changelog has no consumers, or if a program without changelogs has written to the collection.
func Renew(b *bolt.Bucket, collection string, st *State, cursors map[string]consumer.Position) error {
	if err := drop(b, st); err != nil || !st.consumed(len(cursors)) {
		return err
	}
	st.Break()
	st.Since = st.NextSeq
	if err := Create(b); err != nil {
		return err
	}
	for name := range cursors {
		cursors[name] = st.Anew(consumer.ResetDamage)
		if err := PutCursor(b.Bucket(format.BucketCursors), collection, name, cursors[name]); err != nil {
			return err
		}
	}
	return nil
}

// Register adds a cursor, which receives every object first.
func (w *Writer) Register(name string) (c consumer.Position, err error) {
	if err := w.begin(); err != nil {
		return c, err
	}
	c = w.state.Anew(consumer.ResetNew)
	return c, PutCursor(w.b.Bucket(format.BucketCursors), w.collection, name, c)
}

// Forget removes a cursor. Later writes drop the tombstones that only this cursor needed.
func (w *Writer) Forget(name string) error {
	if delete(w.cursors.all, name); !w.state.consumed(len(w.cursors.all)) {
		return w.end()
	}
	return w.b.Bucket(format.BucketCursors).Delete([]byte(name))
}

// Retain sets State.Retain. If retain is 0 later writes drop the tombstones that all cursors have passed.
func (w *Writer) Retain(retain time.Duration) error {
	w.state.Retain = retain
	switch {
	case retain > 0:
		return w.begin()
	case w.cursors == nil || len(w.cursors.all) == 0:
		return w.end()
	}
	return nil
}

// Seq returns the number of the next record. With a changelog it returns same, unless same is 0: the number of the old
// record if only the stored form of the object has changed.
func (w *Writer) Seq(same uint64) uint64 {
	if w.log != nil && same != 0 {
		return same
	}
	return w.state.next()
}

// Put moves the entry of key from old, the number of the previous record or 0, to seq.
func (w *Writer) Put(key string, seq, old uint64) error {
	if w.log == nil {
		return nil
	}
	if old != 0 && old != seq {
		if err := w.log.seqs.Delete(format.SeqKey(old)); err != nil {
			return err
		}
	}
	return w.log.seqs.Put(format.SeqKey(seq), []byte(key))
}

// Break removes the entry of key, whose number is unknown because its record is damaged. Changes up to now may be
// missing, so Settle resets every cursor.
func (w *Writer) Break(key string) error {
	if w.log == nil {
		return nil
	}
	w.broken = true
	w.state.Break()
	var drop [][]byte
	err := w.log.seqs.ForEach(func(seq, of []byte) error {
		if string(of) == key {
			drop = append(drop, bytes.Clone(seq))
		}
		return nil
	})
	for _, seq := range drop {
		err = errors.Join(err, w.log.seqs.Delete(seq))
	}
	return err
}

// AddTombstone replaces the entry of an object, at number old, by a tombstone with its last state. The payload is not
// compressed, so that a tombstone needs no dictionary. Without an encoding there is no last state.
func (w *Writer) AddTombstone(key string, old uint64, last format.Header, payload []byte) error {
	if w.log == nil {
		return nil
	}
	if err := w.log.seqs.Delete(format.SeqKey(old)); err != nil {
		return err
	}
	last.Seq = w.state.next()
	t := format.Tombstone{At: w.out.Now().Steady, Key: key, Header: last, Payload: payload}
	seq := format.SeqKey(last.Seq)
	w.state.Tombstones++
	return w.log.tombstones.Put(seq, t.Append(w.out.AppendRecord))
}

// MaxTombstones bounds the tombstones, even if more are needed. A tombstone that a cursor has not passed is kept up to
// maxAge, or State.Retain if that is longer. Then it is dropped, and the cursor is reset.
const (
	MaxTombstones = 100_000
	maxAge        = 7 * 24 * time.Hour
	// trimPage is the maximum number of tombstones that one transaction drops.
	trimPage = 5_000
)

// Settle writes the cursors that the file lacks, and drops tombstones that no consumer needs or that exceed a limit. It
// resets cursors that have not passed a dropped tombstone. If full is true, tombstones are not retained for readers.
// Pass the Snapshot, nil without consumers, to Cursors.Written after the transaction.
func (w *Writer) Settle(full bool) (*Snapshot, error) {
	if w.log == nil || w.cursors == nil {
		return w.cursors, nil
	}
	if err := w.mark(); err != nil {
		return nil, err
	}
	lost, err := w.trim(full)
	if err != nil {
		return nil, err
	}
	s := w.cursors
	for name, c := range s.all {
		if w.log.cursors.Get([]byte(name)) == nil {
			continue // this transaction removes the cursor
		}
		switch {
		case w.broken:
			c = w.state.Anew(consumer.ResetDamage)
			s.reset[name] = c
		case low(c) < lost:
			c = w.state.Anew(consumer.ResetBehind)
			s.reset[name] = c
		case !s.dirty:
			continue
		}
		if err := PutCursor(w.log.cursors, w.collection, name, c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// trim drops the oldest tombstones that are over a limit or not needed, and raises State.Lacks. It returns the highest
// number of a dropped tombstone that a cursor has not passed; 0 if there is none.
func (w *Writer) trim(full bool) (lost uint64, err error) {
	passed, retain := uint64(math.MaxUint64), w.state.Retain // all cursors have passed the number passed
	for _, c := range w.cursors.all {
		passed = min(passed, low(c))
	}
	if full {
		retain = 0
	}
	now, left := w.out.Now().Steady, w.state.Tombstones
	var drop [][]byte
	oldest := w.log.tombstones.Cursor()
	for k, data := oldest.First(); k != nil && len(drop) < trimPage; k, data = oldest.Next() {
		seq, ok := format.ParseSeqKey(k)
		if !ok {
			break
		}
		at, _ := format.TombstoneTime(data)
		age, unread := now.Sub(at), seq > passed
		needed := unread && age <= maxAge || retain > 0 && age <= retain
		if needed && left <= w.out.MaxTombstones {
			break
		}
		if unread {
			lost = seq
		}
		w.state.Lacks = max(w.state.Lacks, seq)
		drop = append(drop, bytes.Clone(k))
		left--
	}
	for _, k := range drop {
		if err := w.log.tombstones.Delete(k); err != nil {
			return 0, err
		}
	}
	w.state.Tombstones = left
	return lost, nil
}
