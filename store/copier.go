package store

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// copier copies the store's file to a fresh file: bucket by bucket, each in the order of its keys, so that pages are
// filled one after the other. It verifies records, tombstones, dictionaries and documents.
//
// There are three ways to copy:
//
//   - Unchanged, with what a newer program has added: Compact, and a file that was removed while it was open.
//   - With a key, which seals every collection anew that must be sealed: Rekey.
//   - With salvage set, which leaves out damaged parts and records them in found: Rebuild.
//
// The last two ways make index entries from the headers of records, and do not read the old ones. What is left of
// dropped collections is never copied.
//
// A page of entries is read in one transaction of the old file and written in one of the fresh file, so no transaction
// is long. All pages are of the same state, because the caller has the writer's place. Damage of the old file fails the
// store; an error of the fresh file does not.
type copier struct {
	s          *Store
	old, fresh *boltfile.Handle
	// key is the data key with which the copy seals collections; nil copies sealed records as they are.
	key *seal.DataKey
	// keyRecord is the record of the data keys in the copy; nil if it has none.
	keyRecord []byte
	// salvage makes the copier continue where the old file is damaged.
	salvage bool
	found
}

// newCopier returns a copier for the open file of s. exchange sets copier.old.
func newCopier(s *Store, key *seal.DataKey, salvage bool) *copier {
	return &copier{s: s, key: key, salvage: salvage,
		found: found{unsafe: map[string]bool{}, lost: map[string]error{}, behind: map[string]bool{}}}
}

// copy writes the fresh file, complete and synced, under a temporary name. If it fails, it removes the fresh file.
func (c *copier) copy(ctx context.Context) error {
	size := int64(0)
	if info, err := c.old.File.Stat(); err == nil {
		size = info.Size()
	}
	var err error
	if c.fresh, err = boltfile.New(c.s.real, c.s.creating(boltfile.MapSize(size))); err != nil {
		return err
	}
	err = boltfile.KeepOwner(c.old.File, c.fresh.File)
	if err == nil || c.salvage { // a rebuild with another owner is better than none
		err = c.root(ctx)
	}
	if err == nil && c.salvage {
		err = c.revive()
	}
	if err != nil {
		return boltfile.ClassifySpace(errors.Join(err, c.fresh.Discard()))
	}
	return nil
}

// root copies all buckets of the root.
func (c *copier) root(ctx context.Context) error {
	// New files are marked as clean. If this process dies with the fresh file in use, the next process must verify it.
	err := c.write(func(tx *bolt.Tx) error { return putClean(tx, false) })
	if err == nil && c.salvage {
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
		case string(name) == string(format.BucketDropped): // is being removed
		case c.unsafe[string(name)]:
		case string(name) == string(format.BucketDocuments): // a lost document does no harm: its owner can get it anew
			_, _, err = c.each(ctx, path, c.document)
		case !c.salvage:
			err = c.bucket(ctx, path)
		}
	}
	return err
}

// larder copies the root bucket of the store, with every collection. A salvaged file gets a new file id: a reader of
// the old file's changes cannot continue in it.
func (c *copier) larder(ctx context.Context, path bucketPath) error {
	var stored []byte
	collections, err := c.values(ctx, path, func(e pair) bool {
		switch string(e.key) {
		case string(format.KeyClean): // Close sets it
			return false
		case string(format.KeyKeys):
			stored = e.value
			return false
		}
		return !c.salvage
	})
	if err == nil {
		c.keyRecord, err = c.keys(stored)
	}
	if err == nil && c.keyRecord != nil {
		err = c.write(func(tx *bolt.Tx) error { return put(tx, path, pair{format.KeyKeys, c.keyRecord}) })
	}
	for _, name := range collections {
		if err != nil {
			return err
		}
		err = c.collection(ctx, string(name))
	}
	return err
}

// keys returns the record of the data keys for the copy: of the key that the copy is sealed with, or the record of the
// old file, or, for a rebuild, the record that this process has unwrapped.
func (c *copier) keys(stored []byte) ([]byte, error) {
	switch {
	case c.key != nil:
		return keysOf([]*seal.DataKey{c.key})
	case c.salvage && c.s.keys != nil:
		return c.s.keys.held().record, nil
	case c.salvage:
		if _, err := format.ParseKeys(stored); isDamaged(err) { // a record of a newer program is not damaged
			c.keysLost = true
			return nil, nil
		}
	}
	return stored, nil
}

// document verifies and copies a document.
func (c *copier) document(tx *bolt.Tx, e pair) error {
	if _, err := parseDocument(string(e.key), e.value); err != nil {
		return err
	}
	return put(tx, bucketPath{format.BucketDocuments}, e)
}

// bucket copies a bucket and its nested buckets unchanged.
func (c *copier) bucket(ctx context.Context, path bucketPath) error {
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
// nested buckets, which it does not copy. A nil keep copies no entries.
func (c *copier) values(
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
		return c.write(func(tx *bolt.Tx) error { return put(tx, path, kept...) })
	})
	return nested, err
}

// each calls rewrite for each entry of a bucket; rewrite writes the entry to the copy. each returns for how many
// entries that succeeded, and whether it did for all: a copier that salvages leaves out damaged entries.
func (c *copier) each(
	ctx context.Context, path bucketPath, rewrite func(tx *bolt.Tx, e pair) error,
) (copied int, whole bool, err error) {
	bad := 0
	whole, err = c.pages(ctx, path, func(entries []pair) error {
		return c.write(func(tx *bolt.Tx) error {
			if err := put(tx, path); err != nil {
				return err
			}
			for _, e := range entries {
				switch err := rewrite(tx, e); {
				case err == nil:
					copied++
				case c.salvage && isDamaged(err):
					bad++
				default:
					return c.s.settle(c.old, err)
				}
			}
			return nil
		})
	})
	return copied, whole && bad == 0, err
}

// write runs fn in a transaction of the fresh file.
func (c *copier) write(fn func(tx *bolt.Tx) error) error {
	return c.fresh.Update(fn, (*bolt.Tx).Commit)
}

// put creates the bucket if there is none, and writes entries whose keys follow those in the bucket.
func put(tx *bolt.Tx, path bucketPath, entries ...pair) error {
	b, err := path.make(tx)
	if err != nil || len(entries) == 0 {
		return err
	}
	b.FillPercent = coldFill
	for _, e := range entries {
		if err := b.Put(e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}
