package store

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// found is the damage that a copier has found.
type found struct {
	// unsafe holds the names of the collections and root buckets with damaged branch pages, in which bbolt might loop for
	// ever. The empty name stands for the whole file.
	unsafe map[string]bool
	// keysLost says that the record of the data keys is damaged and this process has no keys.
	keysLost bool
	// lost holds the names of the collections that are not copied whole, with the reason.
	lost map[string]error
	// behind holds the names of the collections whose changelog is incomplete: they have lost objects or tombstones.
	behind map[string]bool
}

// lose records that a collection is not copied whole. It returns why as an error, unless the copier salvages.
func (c *copier) lose(name string, why error) error {
	c.lost[name], c.behind[name] = why, true
	return c.tolerate(why)
}

// tolerate returns nil if the copier salvages. Otherwise it fails the store because of the damage, and returns why.
func (c *copier) tolerate(why error) error {
	if c.salvage {
		return nil
	}
	return c.s.settle(c.old, why)
}

// findUnsafe sets unsafe. It reads the branch pages of the old file without the mapping.
func (c *copier) findUnsafe(ctx context.Context) error {
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
		c.unsafe[""] = true // the meta pages cannot be used either
		return nil
	}
	return err
}

// unsafeName returns the key for found.unsafe if a page of the bucket at path is damaged: the name of the collection,
// or of a root bucket other than the store's, or "" for the whole file.
func unsafeName(path []string) string {
	switch {
	case len(path) > 1:
		return path[1]
	case len(path) == 1 && path[0] != string(format.BucketLarder):
		return path[0]
	}
	return ""
}

// revive adds to a copy what this process has in memory: every open collection is in the copy, with its handlers, even
// if nothing of it could be read.
func (c *copier) revive() error {
	err := c.write(c.s.putTimes)
	for _, live := range c.s.liveCollections() {
		if err != nil {
			return err
		}
		err = c.write(func(tx *bolt.Tx) error {
			if _, err := collectionBucket(tx, live.name); errors.Is(err, ErrNoCollection) && c.lost[live.name] == nil {
				if err := c.lose(live.name, entry.ErrDamaged); err != nil {
					return err
				}
			}
			return live.revive(tx, c.behind[live.name])
		})
	}
	return err
}
