package boltfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

const (
	// dropStep is the approximate number of bytes of a dropped collection that one transaction reads and removes.
	dropStep = 16 << 20
	// dropRetry is the delay after a failed removal of dropped collections.
	dropRetry = time.Minute
)

// Dropping describes the removal of a dropped collection to callers that wait for the writer lock.
var Dropping = Work{What: "the removal of a collection", Frees: true}

// Drop moves a bucket to BucketDropped, where readers do not look. Call ClearDropped after the transaction.
func Drop(tx *bolt.Tx, name []byte) error {
	all, err := tx.CreateBucketIfNotExists(format.BucketDropped)
	if err != nil {
		return err
	}
	// BucketDropped may have an earlier dropped collection of the same name, so the path includes the transaction id.
	to, err := all.CreateBucketIfNotExists(binary.BigEndian.AppendUint64(nil, uint64(tx.ID())))
	if err != nil {
		return err
	}
	return tx.Bucket(format.BucketLarder).MoveBucket(name, to)
}

// ClearDropped frees the pages of dropped collections, in transactions of about 16 MiB each, so that other writes can
// run in between. If it fails, or ctx ends, it continues in the background. If the process ends before that, the next
// process continues after Open.
func (f *File) ClearDropped(ctx context.Context) {
	if f.clear(ctx) != nil {
		f.Go("remove what was dropped", f.clearLoop)
	}
}

func (f *File) clearLeft() {
	left := false
	err := f.View(context.Background(), func(tx *bolt.Tx) error {
		left = tx.Bucket(format.BucketDropped) != nil
		return nil
	})
	if err == nil && left {
		f.Go("remove what was dropped", f.clearLoop)
	}
}

func (f *File) clearLoop(ctx context.Context) {
	for f.clear(ctx) != nil {
		select {
		case <-time.After(dropRetry):
		case <-ctx.Done():
			return
		}
	}
}

// clear removes all dropped buckets. It may be called concurrently.
func (f *File) clear(ctx context.Context) error {
	for {
		p, err := f.nextDropped(ctx)
		if err != nil || p == nil {
			return err
		}
		if err := f.Update(ctx, Dropping, p.remove); err != nil {
			return err
		}
	}
}

type droppedPage struct {
	// path is the path of a bucket in BucketDropped. keys are keys of entries in that bucket.
	path, keys [][]byte
	// all is true if keys are all entries of the bucket, so that the bucket is removed too.
	all bool
}

// nextDropped returns the entries to remove next, or nil after the last one. It reads them in a read transaction, which
// does not block writers; the write transaction that removes the entries then finds their pages in memory.
func (f *File) nextDropped(ctx context.Context) (p *droppedPage, err error) {
	err = f.View(ctx, func(tx *bolt.Tx) error {
		if b := tx.Bucket(format.BucketDropped); b != nil {
			p = firstDropped(b, [][]byte{format.BucketDropped}, f.o.DropStep)
		}
		return nil
	})
	return p, err
}

// firstDropped returns the first entries, about left bytes, of the first bucket at or below b without nested buckets.
func firstDropped(b *bolt.Bucket, path [][]byte, left int) *droppedPage {
	p := &droppedPage{path: path, all: true}
	page := b.Tx().DB().Info().PageSize
	cur := b.Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		if v == nil {
			return firstDropped(b.Bucket(k), append(path, bytes.Clone(k)), left)
		}
		if left <= 0 {
			p.all = false
			break
		}
		p.keys = append(p.keys, bytes.Clone(k))
		left -= min(len(k)+len(v), page) // bbolt reads only the first page of a large value.
	}
	return p
}

// remove removes the entries of the page, except entries that a concurrent call has removed.
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
