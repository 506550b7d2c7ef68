package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

const (
	// dropAtOnce is the maximum number of objects and tombstones in a collection that is removed in one transaction.
	// bbolt reads each page of the collection, and nothing else can write meanwhile: for 100,000 objects that were not in
	// the page cache that took seconds on a fast disk, and would take minutes on a memory card.
	dropAtOnce = 2000
	// dropStep is about how many bytes of a larger collection one transaction reads and removes.
	dropStep = 16 << 20
	// dropRetry is how long clearLoop waits after an error.
	dropRetry = time.Minute
)

func (o Options) dropBytes() int {
	if o.dropStep == 0 {
		return dropStep
	}
	return o.dropStep
}

// Drop removes a collection with its contents. The file keeps its size, and later writes use the pages of the
// collection. Compact makes the file smaller; until then each commit writes the list of free pages, 8 bytes for each.
// Drop fails with ErrCollectionOpen while the collection is open, and with ErrNoCollection if there is none. It may
// grow the file past Options.MaxSize, by some pages that are free afterwards: otherwise a full file would stay full.
//
// One transaction makes the collection disappear, so a crash never leaves part of it. The pages of a large collection
// are freed in further transactions, between which other writes run; if ctx ends, this continues in the background, and
// after a crash it continues after the next Open.
func (s *Store) Drop(ctx context.Context, id entry.Identity) error {
	id, err := id.Canonical()
	if err != nil {
		return err
	}
	if err := s.drop(ctx, id.ID(), nil); err != nil {
		return fmt.Errorf("drop the collection of %s: %w", id, err)
	}
	return nil
}

// drop removes a collection, unless may, which is called in the transaction, returns an error. may may be nil.
func (s *Store) drop(ctx context.Context, name string, may func(state) error) error {
	left, err := s.unlink(ctx, name, may)
	if err == nil && left && s.clear(ctx) != nil { // the error is not returned: the collection is gone
		s.goBackground("remove what was dropped", s.clearLoop)
	}
	return err
}

// unlink removes the collection in one transaction. left is true if clear has yet to free its pages.
func (s *Store) unlink(ctx context.Context, name string, may func(state) error) (left bool, err error) {
	if _, held := s.open.take(name, soon); held != nil {
		return false, ErrCollectionOpen
	}
	defer s.open.release(name)
	err = s.updateFor(ctx, dropping, func(tx *bolt.Tx) error {
		_, st, err := findState(tx, name)
		if err == nil && may != nil {
			err = may(st)
		}
		if err != nil && (may != nil || !isDamaged(err)) {
			return err
		}
		s.counts.Drop(tx, name, format.BucketObjects)
		s.counts.Drop(tx, name, format.BucketTombstones)
		if left = err != nil || st.Objects+st.tombstones > dropAtOnce; left {
			return setDropped(tx, name)
		}
		return tx.Bucket(format.BucketLarder).DeleteBucket([]byte(name))
	})
	return left, err
}

// setDropped moves the bucket of a collection into BucketDropped, where readers do not find it.
func setDropped(tx *bolt.Tx, name string) error {
	all, err := tx.CreateBucketIfNotExists(format.BucketDropped)
	if err != nil {
		return err
	}
	// The same collection may have been dropped before.
	to, err := all.CreateBucketIfNotExists(binary.BigEndian.AppendUint64(nil, uint64(tx.ID())))
	if err != nil {
		return err
	}
	return tx.Bucket(format.BucketLarder).MoveBucket([]byte(name), to)
}

// clearLeft starts clearLoop if an earlier process has left dropped collections.
func (s *Store) clearLeft() {
	left := false
	err := s.view(context.Background(), func(tx *bolt.Tx) error {
		left = tx.Bucket(format.BucketDropped) != nil
		return nil
	})
	if err == nil && left {
		s.goBackground("remove what was dropped", s.clearLoop)
	}
}

// clearLoop calls clear until it succeeds.
func (s *Store) clearLoop(ctx context.Context) {
	for s.clear(ctx) != nil {
		select {
		case <-time.After(dropRetry):
		case <-ctx.Done():
			return
		}
	}
}

// clear removes what is left of dropped collections. It may be called concurrently.
func (s *Store) clear(ctx context.Context) error {
	for {
		p, err := s.nextDropped(ctx)
		if err != nil || p == nil {
			return err
		}
		if err := s.updateFor(ctx, dropping, p.remove); err != nil {
			return err
		}
	}
}

// droppedPage holds the entries that one transaction removes.
type droppedPage struct {
	// path is the path of a bucket, beginning with BucketDropped. keys are keys of entries in it.
	path, keys [][]byte
	// all says that keys are all entries of the bucket, so that the bucket is removed too.
	all bool
}

// nextDropped returns the entries to remove next, or nil if none is left. It reads them in a read transaction, for
// which no writer waits, so that the transaction that removes them finds their pages in memory.
func (s *Store) nextDropped(ctx context.Context) (p *droppedPage, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		if b := tx.Bucket(format.BucketDropped); b != nil {
			p = s.firstDropped(b, [][]byte{format.BucketDropped})
		}
		return nil
	})
	return p, err
}

// firstDropped returns the first entries of the first bucket, at or below b, that has no nested buckets.
func (s *Store) firstDropped(b *bolt.Bucket, path [][]byte) *droppedPage {
	p := &droppedPage{path: path, all: true}
	left := s.o.dropBytes()
	page := b.Tx().DB().Info().PageSize
	for k, v := range ascending(b) {
		if v == nil {
			return s.firstDropped(b.Bucket(k), append(path, bytes.Clone(k)))
		}
		if left <= 0 {
			p.all = false
			break
		}
		p.keys = append(p.keys, bytes.Clone(k))
		left -= min(len(k)+len(v), page) // only the first page of a large value is read
	}
	return p
}

// remove removes the entries that have not been removed yet.
func (p *droppedPage) remove(tx *bolt.Tx) error {
	last := len(p.path) - 1
	if last == 0 {
		if tx.Bucket(p.path[0]) == nil {
			return nil
		}
		return tx.DeleteBucket(p.path[0])
	}
	in := tx.Bucket(p.path[0])
	for _, name := range p.path[1:last] {
		if in == nil {
			return nil
		}
		in = in.Bucket(name)
	}
	if in == nil || in.Bucket(p.path[last]) == nil {
		return nil
	}
	if p.all {
		return in.DeleteBucket(p.path[last])
	}
	b := in.Bucket(p.path[last])
	for _, k := range p.keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
