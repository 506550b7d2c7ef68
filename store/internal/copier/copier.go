package copier

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

type Copier struct {
	// File is the file to copy. It fails if damage is found, unless Salvage is set.
	File *boltfile.File
	// Keys are the data keys of the old file, unwrapped by this process.
	Keys *crypt.Ring

	// Fresh has the data key for the copy's sealed collections: the collections that are sealed already, and those for
	// whose resource Seals returns true. If Fresh is nil, sealed records are copied unchanged.
	Fresh *crypt.Ring
	Seals func(r schema.GroupResource) bool
	// Salvage makes the copier continue after damage in the old file. Revive is called after all other copying.
	Salvage bool
	Revive  func(c *Copier) error

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
	if err == nil || c.Salvage { // In a rebuild, a copy with another owner is better than none.
		err = c.root(ctx)
	}
	if err == nil && c.Salvage {
		err = c.Revive(c)
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

// keyRecord returns the record of the data keys for the copy: with Fresh, the record of its key; in a rebuild, the
// record that this process has unwrapped; otherwise the record of the old file. It returns nil if there are no keys.
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
