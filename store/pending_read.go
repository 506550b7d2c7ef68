package store

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/intake"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// covers is the state that covers the writes in the memtable.
type covers struct {
	entry.Info
	settled *intake.Settled // the last list that has ended; nil if none has
}

// captured is a view of the memtable at one moment.
type captured = memtable.View[covers]

// viewOver calls fn with the collection's bucket and a view of the memtable. Together they are the
// state after some batch. want limits the view to an index look-up; nil is everything.
func (r *reader) viewOver(
	ctx context.Context, want *memtable.Lookup, fn func(b *bolt.Bucket, over *captured) error,
) error {
	return r.viewCaptured(ctx, func() *captured { return r.memtable.Capture(want) }, fn)
}

// viewCaptured captures the memtable before the transaction begins, so writes that leave the memtable in between are
// in the file. It retries if a commit has begun or ended in between, since the file might have later writes.
func (r *reader) viewCaptured(
	ctx context.Context, capture func() *captured, fn func(b *bolt.Bucket, over *captured) error,
) error {
	for {
		over, again := &captured{}, false
		if r.memtable != nil {
			over = capture()
		}
		err := r.view(ctx, func(b *bolt.Bucket) error {
			if r.memtable != nil && !r.memtable.IsAt(over.Epoch) {
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

// overScan reads the objects of a collection in key order. A write in the memtable takes the place of the record in the
// file.
type overScan struct {
	file    *boltfile.Scan
	records int    // number of records of the file that have been passed, replaced by a write or not
	k, v    []byte // the next key and record of the file; nil at its end
	over    *captured
	pending []*memtable.Write // the next writes of over, at most overChunk
	all     bool              // true if pending reaches to the end of over
}

// overChunk is how many writes of the memtable are read ahead.
const overChunk = 256

// scanOver returns a scan that begins after the given key.
func scanOver(objects *bolt.Bucket, over *captured, after string) *overScan {
	s := &overScan{file: boltfile.ScanAfter(objects, after), over: over}
	s.k, s.v = s.file.Next()
	s.ahead(after)
	return s
}

// scanOverFrom returns a scan that begins with the given key.
func scanOverFrom(objects *bolt.Bucket, over *captured, from string) *overScan {
	s := &overScan{file: boltfile.ScanAfter(objects, ""), over: over}
	s.k, s.v = s.file.Seek([]byte(from))
	s.pending = over.From(from, overChunk, func(*memtable.Write) bool { return true })
	s.all = len(s.pending) < overChunk
	return s
}

func (s *overScan) ahead(after string) {
	s.pending = s.over.After(after, overChunk)
	s.all = len(s.pending) < overChunk
}

// next returns the next key with its record, or with its write if it is in the memtable. ok is false at the end; err
// then returns an error if damage has ended the scan.
func (s *overScan) next() (key string, data []byte, x *memtable.Write, ok bool) {
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
func (s *overScan) advance() {
	s.records++
	s.k, s.v = s.file.Next()
}

func (s *overScan) err() error { return s.file.Err }
