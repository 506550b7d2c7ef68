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
	// dropAtOnce is how many objects a collection has at most that one transaction removes with all it holds. bbolt looks
	// at each of its pages, and nobody else can write meanwhile: 100,000 objects that the kernel had to read first took
	// seconds of a fast disk, and would take minutes of a card.
	dropAtOnce = 2000
	// dropStep is how many bytes one transaction removes of a larger one: about so many pages are looked at.
	dropStep = 16 << 20
	// dropRetry is when to go on after an error.
	dropRetry = time.Minute
)

func (o Options) dropBytes() int {
	if o.dropStep == 0 {
		return dropStep
	}
	return o.dropStep
}

// Drop removes a collection and all it holds. The file keeps its size, and what comes next goes where the collection
// was; Compact gives the room back, and until then each commit writes the list of free pages, 8 bytes for each. Drop
// fails with ErrCollectionOpen while the collection is open, and with ErrNoCollection if there is none. It may take the
// file past Options.MaxSize, by some pages that are free afterwards: else a full file would stay full.
//
// The collection is gone in one transaction, whenever the process dies. The pages of a large one become free in further
// ones, between which others write, and in the background if ctx ends meanwhile; what a crash leaves of it is removed
// after the next Open.
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

// drop removes a collection if may, called in the transaction, does not object; it may be nil.
func (s *Store) drop(ctx context.Context, name string, may func(state) error) error {
	left, err := s.unlink(ctx, name, may)
	if err == nil && left && s.clear(ctx) != nil { // which is nobody's concern: the collection is gone
		s.goBackground("remove what was dropped", s.clearLoop)
	}
	return err
}

// unlink takes the collection out of the file. left: its pages are yet to be made free.
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
		s.tallies.drop(tx, tallied{name, string(format.BucketObjects)})
		s.tallies.drop(tx, tallied{name, string(format.BucketTombstones)})
		if left = err != nil || st.Objects+st.tombstones > dropAtOnce; left {
			return setDropped(tx, name)
		}
		return tx.Bucket(format.BucketLarder).DeleteBucket([]byte(name))
	})
	return left, err
}

// setDropped moves a collection, as it is, to where nobody sees it.
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

// clearLeft goes on with what an earlier process has dropped.
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

// clearLoop is clear until it has succeeded.
func (s *Store) clearLoop(ctx context.Context) {
	for s.clear(ctx) != nil {
		select {
		case <-time.After(dropRetry):
		case <-ctx.Done():
			return
		}
	}
}

// clear removes what is left of collections that were dropped. Several may do so at a time.
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

// droppedPage is what one transaction removes.
type droppedPage struct {
	// path is that of a bucket, from bucketDropped on, and keys are entries of it. all: they are all there are, and the
	// bucket goes too.
	path, keys [][]byte
	all        bool
}

// nextDropped returns what comes next, or nil if nothing is left. It is read here, where nobody waits, so that the
// transaction which removes it finds it in memory.
func (s *Store) nextDropped(ctx context.Context) (p *droppedPage, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		if b := tx.Bucket(format.BucketDropped); b != nil {
			p = s.firstDropped(b, [][]byte{format.BucketDropped})
		}
		return nil
	})
	return p, err
}

// firstDropped returns the first entries of the first bucket that holds no other.
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
		left -= min(len(k)+len(v), page) // of a value that takes many pages one is looked at
	}
	return p
}

// remove does that, as far as it has not been done.
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
