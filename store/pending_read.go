package store

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// covers is what covers the writes that are pending.
type covers struct {
	Info
	settled *settled // by the newest list that has ended; nil if none has
}

// settled is a list that has ended: from then on the collection need not be listed.
type settled struct {
	losses    int  // of the collection at that moment: what a rebuild has lost since, it does not settle
	rewritten bool // every body was stored anew, so dictionaries may be needed no more
}

// captured is what is pending at one moment.
type captured = memtable.View[covers]

// viewOver calls fn with the collection's bucket and with what is pending over it, so that the two
// together are one state: that after some batch.
func (r *reader) viewOver(
	ctx context.Context, want *memtable.Lookup, fn func(b *bolt.Bucket, over *captured) error,
) error {
	return r.viewCaptured(ctx, func() *captured { return r.overlay.Capture(want) }, fn)
}

// viewCaptured captures the overlay before the transaction begins, so what leaves it meanwhile is in the file; and
// if something later might be in the file already, it is all done again.
func (r *reader) viewCaptured(
	ctx context.Context, capture func() *captured, fn func(b *bolt.Bucket, over *captured) error,
) error {
	for {
		over, again := &captured{}, false
		if r.overlay != nil {
			over = capture()
		}
		err := r.view(ctx, func(b *bolt.Bucket) error {
			if r.overlay != nil && !r.overlay.IsAt(over.Epoch) {
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

// overScan reads the objects of a collection in key order: those of the file, and those that are pending over it
// in their place.
type overScan struct {
	file    *boltfile.Scan
	k, v    []byte // the next of the file
	over    *captured
	pending []*memtable.Write // the next of over
	all     bool              // pending reaches to the end
}

// overChunk is how many pending writes are looked at ahead.
const overChunk = 256

// scanOver begins after the given key.
func scanOver(objects *bolt.Bucket, over *captured, after string) *overScan {
	s := &overScan{file: boltfile.ScanAfter(objects, after), over: over}
	s.k, s.v = s.file.Next()
	s.ahead(after)
	return s
}

// scanOverFrom begins with the given key.
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

// next returns the next key with its record, or with the write that is pending. ok is false at the end, and err set
// if that is because of damage.
func (s *overScan) next() (key string, data []byte, x *memtable.Write, ok bool) {
	for {
		switch {
		case len(s.pending) == 0 && s.k == nil:
			return "", nil, nil, false
		case len(s.pending) == 0 || s.k != nil && string(s.k) < s.pending[0].Key:
			key, data = string(s.k), s.v
			s.k, s.v = s.file.Next()
			return key, data, nil, true
		}
		x = s.pending[0]
		if s.pending = s.pending[1:]; len(s.pending) == 0 && !s.all {
			s.ahead(x.Key)
		}
		if s.k != nil && string(s.k) == x.Key {
			s.k, s.v = s.file.Next()
		}
		if !x.Del {
			return x.Key, nil, x, true
		}
	}
}

func (s *overScan) err() error { return s.file.Err }
