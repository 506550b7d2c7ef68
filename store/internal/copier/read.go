package copier

import (
	"bytes"
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// pageBytes is the approximate number of bytes that one transaction reads, and another writes.
const pageBytes = 4 << 20

// pair is an entry of a bucket. value is nil for a nested bucket.
type pair struct{ key, value []byte }

// bucketPath is the path of a bucket, from the outermost bucket to its own name. The empty path is the root.
type bucketPath [][]byte

func (p bucketPath) to(name []byte) bucketPath { return append(p[:len(p):len(p)], name) }

func (p bucketPath) make(tx *bolt.Tx) (b *bolt.Bucket, err error) {
	b = tx.Cursor().Bucket()
	for _, name := range p {
		if b, err = b.CreateBucketIfNotExists(name); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// pages calls each with the entries of a bucket of the old file, a page at a time, in key order. For an empty bucket,
// it calls each once without entries. With Salvage, pages reads forwards up to the first fault, and then backwards from
// the end, up to a fault or to the last key read forwards. whole is true without a fault.
func (c *Copier) pages(ctx context.Context, path bucketPath, each func([]pair) error) (whole bool, err error) {
	r := &bucketReader{path: path}
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		r.page = nil
		err := c.old.View(r.read)
		fault := c.Salvage && isDamaged(err)
		if err != nil && !fault {
			return false, c.File.Classify(c.old, err)
		}
		end := len(r.page) == 0
		if first || !end {
			if err := each(r.page); err != nil { // The page may have only the entries that were read before a fault.
				return false, err
			}
		}
		switch {
		case fault && !r.backwards:
			r.backwards = true
		case fault || end:
			return !r.backwards, nil
		}
	}
}

// bucketReader reads the entries of a bucket in pages. It verifies that the keys are in order.
type bucketReader struct {
	path      bucketPath
	backwards bool
	// after is the last key read forwards, and before the last key read backwards; nil before the first read.
	after, before []byte
	// page holds copies of the entries read in the last transaction.
	page []pair
}

// read reads the next page. If it fails or panics, page holds the entries read so far.
func (r *bucketReader) read(tx *bolt.Tx) error {
	b := tx.Cursor().Bucket()
	for _, name := range r.path {
		if b = b.Bucket(name); b == nil {
			return &boltfile.FaultError{What: "a bucket is missing"}
		}
	}
	cur := b.Cursor()
	next := cur.Next
	if r.backwards {
		next = cur.Prev
	}
	size := 0
	for k, v := r.first(cur); k != nil && size < pageBytes; k, v = next() {
		if r.backwards && bytes.Compare(k, r.after) <= 0 {
			return nil // The remaining entries were read forwards, before the fault.
		}
		if !r.isNext(k) {
			return &boltfile.FaultError{What: "the keys are out of order"}
		}
		e := pair{key: bytes.Clone(k), value: bytes.Clone(v)}
		r.page = append(r.page, e)
		if r.backwards {
			r.before = e.key
		} else {
			r.after = e.key
		}
		size += len(k) + len(v)
	}
	return nil
}

// first moves cur to the first unread entry in the direction of reading, and returns it.
func (r *bucketReader) first(cur *bolt.Cursor) (k, v []byte) {
	switch {
	case !r.backwards:
		return boltfile.SeekAfter(cur, r.after)
	case r.before == nil:
		return cur.Last()
	}
	cur.Seek(r.before)
	return cur.Prev()
}

func (r *bucketReader) isNext(key []byte) bool {
	if r.backwards {
		return r.before == nil || bytes.Compare(key, r.before) < 0
	}
	return bytes.Compare(key, r.after) > 0
}
