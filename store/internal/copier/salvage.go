package copier

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

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
