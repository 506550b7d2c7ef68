package copier

import (
	"bytes"
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

// Copier copies a store's file once.
type Copier struct {
	// File is the file to copy. It fails if damage is found, unless Salvage is set.
	File *boltfile.File
	// Keys are the data keys of the old file, unwrapped by this process.
	Keys *crypt.Ring

	// Fresh has the data key for the copy's sealed collections: the collections that are sealed already, and those for
	// whose resource Seals returns true. If Fresh is nil, sealed records are copied unchanged.
	Fresh *crypt.Ring
	Seals func(r schema.GroupResource) bool
	// Salvage makes the copier continue after damage in the old file.
	Salvage bool

	// Lost holds the names of incompletely copied collections, each with the reason.
	Lost map[string]error
	// Behind holds the names of the collections with an incomplete changelog: they have lost objects or tombstones.
	Behind map[string]bool

	old, fresh *boltfile.Handle
	// unsafe holds the names of the collections and root buckets with damaged branch pages, in which bbolt might loop for
	// ever. The empty name means the whole file.
	unsafe map[string]bool
	// keysLost is true if the record of the data keys is damaged and this process has no keys.
	keysLost bool
}

// Copy copies old, the current handle of the file, to a fresh file, complete and synced, under a temporary name. If it
// fails, it removes the fresh file.
func (c *Copier) Copy(ctx context.Context, old *boltfile.Handle) (*boltfile.Handle, error) {
	c.unsafe, c.Lost, c.Behind = map[string]bool{}, map[string]error{}, map[string]bool{}
	fresh, err := c.File.Fresh(old)
	if err != nil {
		return nil, err
	}
	c.old, c.fresh = old, fresh
	err = boltfile.KeepOwner(old.File, fresh.File)
	if err == nil || c.Salvage { // A copy of a damaged file with another owner is better than none.
		err = c.root(ctx)
	}
	if err != nil {
		return nil, boltfile.ClassifySpace(errors.Join(err, fresh.Discard()))
	}
	return fresh, nil
}

func (c *Copier) root(ctx context.Context) error {
	// If this process dies while it uses the fresh file, the next process must verify the file. So Copy removes the key of
	// a clean close, which new files have.
	err := c.Write(func(tx *bolt.Tx) error { return boltfile.PutClean(tx, false) })
	if err == nil && c.Salvage {
		err = c.findUnsafe(ctx)
	}
	if err != nil || c.unsafe[""] {
		return err
	}
	names, err := c.values(ctx, bucketPath{}, nil)
	for _, name := range names {
		if err != nil {
			return err
		}
		switch path := (bucketPath{name}); {
		case string(name) == string(format.BucketLarder):
			err = c.larder(ctx, path)
		case string(name) == string(format.BucketDropped):
		case c.unsafe[string(name)]:
		case string(name) == string(format.BucketDocuments): // The owner of a lost document can fetch the document anew.
			_, _, err = c.each(ctx, path, c.document)
		case !c.Salvage:
			err = c.bucket(ctx, path)
		}
	}
	return err
}

// larder copies the store's root bucket, with every collection. A salvaged file gets a new file id, so that a reader of
// the old file's changes does not continue in it.
func (c *Copier) larder(ctx context.Context, path bucketPath) error {
	var stored []byte
	collections, err := c.values(ctx, path, func(e pair) bool {
		switch string(e.key) {
		case string(format.KeyClean): // Only Close sets the key of a clean close.
			return false
		case string(format.KeyKeys):
			stored = e.value
			return false
		case string(format.KeyTimes): // The steady clock must not advance when a file is salvaged.
			return true
		}
		return !c.Salvage
	})
	if err == nil {
		if keys := c.keyRecord(stored); keys != nil {
			err = c.Write(func(tx *bolt.Tx) error { return put(tx, path, pair{format.KeyKeys, keys}) })
		}
	}
	for _, name := range collections {
		if err != nil {
			return err
		}
		err = c.collection(ctx, string(name))
	}
	return err
}

// keyRecord returns the record of the data keys for the copy: with Fresh, the record of its key; with Salvage, the
// record that this process has unwrapped, if it has; otherwise the record of the old file. It returns nil without keys.
func (c *Copier) keyRecord(stored []byte) []byte {
	switch {
	case c.Fresh != nil:
		return c.Fresh.Record()
	case c.Salvage && c.Keys.Record() != nil:
		return c.Keys.Record()
	case c.Salvage:
		if _, err := format.ParseKeys(stored); isDamaged(err) { // A record of a newer program is not damaged.
			c.keysLost = true
			return nil
		}
	}
	return stored
}

func isDamaged(err error) bool { return errors.Is(err, entry.ErrDamaged) }

func (c *Copier) document(tx *bolt.Tx, e pair) error {
	if _, err := format.ParseDocument(string(e.key), e.value); err != nil {
		return err
	}
	return put(tx, bucketPath{format.BucketDocuments}, e)
}

func (c *Copier) bucket(ctx context.Context, path bucketPath) error {
	nested, err := c.values(ctx, path, func(pair) bool { return true })
	for _, name := range nested {
		if err != nil {
			return err
		}
		err = c.bucket(ctx, path.to(name))
	}
	return err
}

// values creates a bucket in the copy, copies the entries for which keep returns true, and returns the names of the
// nested buckets, which it does not copy. With a nil keep it copies no entries.
func (c *Copier) values(
	ctx context.Context, path bucketPath, keep func(pair) bool,
) (nested [][]byte, err error) {
	_, err = c.pages(ctx, path, func(entries []pair) error {
		kept := entries[:0]
		for _, e := range entries {
			if e.value == nil {
				nested = append(nested, e.key)
			} else if keep != nil && keep(e) {
				kept = append(kept, e)
			}
		}
		return c.Write(func(tx *bolt.Tx) error { return put(tx, path, kept...) })
	})
	return nested, err
}

// each calls rewrite for each entry of a bucket; rewrite writes the entry to the copy. each returns the number of
// entries for which rewrite succeeded, and whether none was lost: with Salvage, damaged entries are skipped.
func (c *Copier) each(
	ctx context.Context, path bucketPath, rewrite func(tx *bolt.Tx, e pair) error,
) (copied int, whole bool, err error) {
	bad := 0
	whole, err = c.pages(ctx, path, func(entries []pair) error {
		return c.Write(func(tx *bolt.Tx) error {
			if err := put(tx, path); err != nil {
				return err
			}
			for _, e := range entries {
				switch err := rewrite(tx, e); {
				case err == nil:
					copied++
				case c.Salvage && isDamaged(err):
					bad++
				default:
					return c.File.Classify(c.old, err)
				}
			}
			return nil
		})
	})
	return copied, whole && bad == 0, err
}

func (c *Copier) Write(fn func(tx *bolt.Tx) error) error {
	return c.fresh.Update(fn, (*bolt.Tx).Commit)
}

// fill is the fraction of each page that bbolt fills in a bucket that is written in key order.
const fill = 0.95

// put creates a missing bucket, and writes the entries. Their keys must follow the keys in the bucket.
func put(tx *bolt.Tx, path bucketPath, entries ...pair) error {
	b, err := path.make(tx)
	if err != nil || len(entries) == 0 {
		return err
	}
	b.FillPercent = fill
	for _, e := range entries {
		if err := b.Put(e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}

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

// lose notes in Lost and Behind that a collection's copy is incomplete. Unless Salvage is set, it returns why.
func (c *Copier) lose(name string, why error) error {
	c.Lost[name], c.Behind[name] = why, true
	return c.tolerate(why)
}

// tolerate returns nil if Salvage is set. Otherwise it makes the store fail because of the damage, and returns why.
func (c *Copier) tolerate(why error) error {
	if c.Salvage {
		return nil
	}
	return c.File.Classify(c.old, why)
}

// findUnsafe sets Copier.unsafe, the names of the collections with damaged branch pages. It reads the branch pages of
// the old file without the mapping.
func (c *Copier) findUnsafe(ctx context.Context) error {
	err := c.old.View(func(tx *bolt.Tx) error {
		info, err := c.old.File.Stat()
		if err != nil {
			return err
		}
		pages, err := boltcheck.Salvage(c.old.File, info.Size(), uint64(tx.ID()))
		if err != nil {
			return boltfile.OwnErrors(err)
		}
		_, err = pages.Walk(ctx, boltcheck.WalkOptions{LeafDepth: boltfile.BranchDepth, Unsafe: func(path []string) {
			c.unsafe[unsafeName(path)] = true
		}})
		return err
	})
	if isDamaged(err) {
		c.unsafe[""] = true // Without valid meta pages, the whole file is unsafe.
		return nil
	}
	return err
}

// unsafeName returns the key for Copier.unsafe if a page of the bucket at path is damaged: the name of the collection,
// or of a root bucket other than BucketLarder, or "" for the whole file.
func unsafeName(path []string) string {
	switch {
	case len(path) > 1:
		return path[1]
	case len(path) == 1 && path[0] != string(format.BucketLarder):
		return path[0]
	}
	return ""
}
