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

// found is what a copier has found of damage.
type found struct {
	// unsafe are the collections, and the bucket of documents, in which bbolt might run in circles; with the empty name
	// the whole file.
	unsafe map[string]bool
	// keysLost: nobody has the data keys, whose record is damaged.
	keysLost bool
	// lost is why, by the name of each collection that is not copied whole.
	lost map[string]error
	// behind are the collections whose changelog lacks something: those that have lost anything, or tombstones.
	behind map[string]bool
}

// lose notes that a collection is not copied whole.
func (c *copier) lose(name string, why error) error {
	c.lost[name], c.behind[name] = why, true
	return c.tolerate(why)
}

// tolerate returns damage of the old file as the error that it is, unless the copier salvages.
func (c *copier) tolerate(why error) error {
	if c.salvage {
		return nil
	}
	return c.s.settle(c.old, why)
}

// findUnsafe looks at the branches of the old file without the mapping.
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
		c.unsafe[""] = true // not even the meta pages
		return nil
	}
	return err
}

// unsafeName returns what there is no copying of if a page of that bucket is bad: a collection, the documents, what is
// being removed, or, empty, anything.
func unsafeName(path []string) string {
	switch {
	case len(path) > 1:
		return path[1]
	case len(path) == 1 && path[0] != string(format.BucketLarder):
		return path[0]
	}
	return ""
}

// revive completes a copy with what this process has in memory: collections that are open are there, with their
// handlers, though nothing of them could be read.
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
