package engine

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

type Captured = MemtableView[Covers]

// ViewMerged calls fn with the collection's bucket and a View of the memtable. Together they are the state after some
// batch. want is an index look-up for which the View is captured, or nil.
func (r *Reader) ViewMerged(
	ctx context.Context, want *Lookup, fn func(b *bolt.Bucket, over *Captured) error,
) error {
	return r.viewCaptured(ctx, func() *Captured { return r.Memtable.Capture(want, func() {}) }, fn)
}

// viewCaptured captures the memtable before the transaction begins, so that writes that are committed in between are in
// the file. If a commit has begun or ended in between, it retries, since the file might have later writes than the
// View.
func (r *Reader) viewCaptured(
	ctx context.Context, capture func() *Captured, fn func(b *bolt.Bucket, over *Captured) error,
) error {
	for {
		over, again := &Captured{}, false
		if r.Memtable != nil {
			over = capture()
		}
		err := r.View(ctx, func(b *bolt.Bucket) error {
			if r.Memtable != nil && !r.Memtable.IsAt(over.Epoch) {
				again = true
				return nil
			}
			return fn(b, over)
		})
		if !again {
			return err
		}
	}
}

// MergedScan reads the objects of a collection in key order. A write in the memtable replaces the record in the file.
type MergedScan struct {
	file    *boltfile.Scan
	records int    // records is the number of records read from the file, including replaced ones.
	k, v    []byte // k and v are the next key and record of the file; nil at its end.
	over    *Captured
	pending []*Write // pending are the next writes of the memtable, at most aheadWrites.
	all     bool     // all is true if pending has all remaining writes of the memtable.
}

const aheadWrites = 256

// ScanMerged returns a scan of the objects in the file and the memtable that starts after the given key.
func ScanMerged(objects *bolt.Bucket, over *Captured, after string) *MergedScan {
	s := &MergedScan{file: boltfile.ScanAfter(objects, after), over: over}
	s.k, s.v = s.file.Next()
	s.ahead(after)
	return s
}

// scanMergedFrom returns a scan of the objects in the file and the memtable that starts at the given key.
func scanMergedFrom(objects *bolt.Bucket, over *Captured, from string) *MergedScan {
	s := &MergedScan{file: boltfile.ScanAfter(objects, ""), over: over}
	s.k, s.v = s.file.Seek([]byte(from))
	s.pending = over.From(from, aheadWrites, func(*Write) bool { return true })
	s.all = len(s.pending) < aheadWrites
	return s
}

func (s *MergedScan) ahead(after string) {
	s.pending = s.over.After(after, aheadWrites)
	s.all = len(s.pending) < aheadWrites
}

// Next returns the next key with its record, or with its write in the memtable. ok is false at the end; then Err
// returns an error if damage has ended the scan.
func (s *MergedScan) Next() (key string, data []byte, x *Write, ok bool) {
	for {
		switch {
		case len(s.pending) == 0 && s.k == nil:
			return "", nil, nil, false
		case len(s.pending) == 0 || s.k != nil && string(s.k) < s.pending[0].Key:
			key, data = string(s.k), s.v
			s.advance()
			return key, data, nil, true
		}
		x = s.pending[0]
		if s.pending = s.pending[1:]; len(s.pending) == 0 && !s.all {
			s.ahead(x.Key)
		}
		if s.k != nil && string(s.k) == x.Key {
			s.advance()
		}
		if !x.Del {
			return x.Key, nil, x, true
		}
	}
}

func (s *MergedScan) advance() {
	s.records++
	s.k, s.v = s.file.Next()
}

func (s *MergedScan) Err() error { return s.file.Err }
