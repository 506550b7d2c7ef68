package read

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/state"
)

// Captured is a view of the memtable at one moment.
type Captured = memtable.View[state.Covers]

// ViewOver calls fn with the collection's bucket and a view of the memtable. Together they are the
// state after some batch. want limits the view to an index look-up; nil is everything.
func (r *Reader) ViewOver(
	ctx context.Context, want *memtable.Lookup, fn func(b *bolt.Bucket, over *Captured) error,
) error {
	return r.viewCaptured(ctx, func() *Captured { return r.Memtable.Capture(want, func() {}) }, fn)
}

// viewCaptured captures the memtable before the transaction begins, so writes that leave the memtable in between are
// in the file. It retries if a commit has begun or ended in between, since the file might have later writes.
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

// OverScan reads the objects of a collection in key order. A write in the memtable takes the place of the record in the
// file.
type OverScan struct {
	file    *boltfile.Scan
	records int    // number of records of the file that have been passed, replaced by a write or not
	k, v    []byte // the next key and record of the file; nil at its end
	over    *Captured
	pending []*memtable.Write // the next writes of over, at most overChunk
	all     bool              // true if pending reaches to the end of over
}

// overChunk is how many writes of the memtable are read ahead.
const overChunk = 256

// ScanOver returns a scan that begins after the given key.
func ScanOver(objects *bolt.Bucket, over *Captured, after string) *OverScan {
	s := &OverScan{file: boltfile.ScanAfter(objects, after), over: over}
	s.k, s.v = s.file.Next()
	s.ahead(after)
	return s
}

// scanOverFrom returns a scan that begins with the given key.
func scanOverFrom(objects *bolt.Bucket, over *Captured, from string) *OverScan {
	s := &OverScan{file: boltfile.ScanAfter(objects, ""), over: over}
	s.k, s.v = s.file.Seek([]byte(from))
	s.pending = over.From(from, overChunk, func(*memtable.Write) bool { return true })
	s.all = len(s.pending) < overChunk
	return s
}

func (s *OverScan) ahead(after string) {
	s.pending = s.over.After(after, overChunk)
	s.all = len(s.pending) < overChunk
}

// Next returns the next key with its record, or with its write if it is in the memtable. ok is false at the end; err
// then returns an error if damage has ended the scan.
func (s *OverScan) Next() (key string, data []byte, x *memtable.Write, ok bool) {
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

// advance goes on to the next record of the file.
func (s *OverScan) advance() {
	s.records++
	s.k, s.v = s.file.Next()
}

// Err returns the error that has ended the scan, or nil.
func (s *OverScan) Err() error { return s.file.Err }
