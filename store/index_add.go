package store

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
)

// AddIndexers adds index functions; see Interface. As in client-go, it fails
// and adds none of them if one of the names is taken.
func (c *Collection) AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error {
	if len(indexers) == 0 {
		return nil
	}
	err := c.addIndexers(ctx, indexers, versionsWith(c.read.Codec, versions))
	if err != nil {
		return fmt.Errorf("add indexes to %s: %w", c.id, err)
	}
	return nil
}

// addIndexers computes the terms of the objects in memory, under no lock. It repeats that until nothing was written in
// the meantime.
func (c *Collection) addIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error {
	added, err := c.in.Set.Load().Only(indexers, versions)
	if err != nil {
		return err
	}
	var terms grownTerms
	return c.in.UntilAdded(func() (bool, error) {
		terms.pending = c.in.MoreTerms(c.read.Memtable.All(), added, terms.pending, func(key string, err error) {
			c.store.logger().Error(err, "An object is not in the index: the index function failed", "collection", c.id.String(),
				"key", key)
		})
		if r := c.resident.Load(); r != nil {
			terms.resident = r.MoreTerms(added.WorkingTerms, terms.resident)
		}
		return c.addComputed(ctx, added, indexers, versions, terms)
	})
}

// grownTerms are the terms of the objects in memory, including those of the added functions.
type grownTerms struct {
	pending  map[*memtable.Write]map[string][]string // of each write in the memtable, but for deletes
	resident resident.MoreTerms
}

// addComputed adds the functions, and returns false if something was written since the terms were computed. Meanwhile
// batches do not wait for the disk, but nothing is committed: the memtable must have the terms before the file has the
// index.
func (c *Collection) addComputed(
	ctx context.Context, added *index.Set, indexers cache.Indexers, versions map[string]string, terms grownTerms,
) (bool, error) {
	if err := c.lockWrites(ctx); err != nil {
		return false, err
	}
	defer c.mu.Unlock()
	release, err := c.store.commits.TakeTurn(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	before := c.in.Set.Load()
	set, err := before.With(indexers, versions)
	if err != nil {
		return false, err
	}
	if !c.swapSet(set, added, terms) {
		return false, nil
	}
	if err := c.claimLocked(ctx, set); err != nil {
		c.putSet(before.Replacing(set)) // a batch may have been indexed with set
		c.idled.Store(false)            // the file may say that the index is ready; the next write has to mark it as idle
		return false, err
	}
	return true, nil
}

// swapSet makes set the index functions for the next batches. It returns false if terms lacks an object in memory.
func (c *Collection) swapSet(set, added *index.Set, terms grownTerms) bool {
	c.in.Front.Lock()
	defer c.in.Front.Unlock()
	if !c.read.Memtable.Covered(terms.pending) {
		return false
	}
	if r := c.resident.Load(); r != nil && !r.AddTerms(added.Names(), terms.resident) {
		return false
	}
	if grown := c.read.Memtable.Reterm(terms.pending); grown != 0 {
		c.grew(grown)
	}
	c.in.Set.Store(set)
	return true
}
