package engine

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"
)

// Losses returns how many times a rebuild of the file has lost objects of the collection; see store.Collection.
func (c *Collection) Losses() int { return int(c.losses.Load()) }

// LoseObjects counts a rebuild of the file that has lost objects of the collection.
func (c *Collection) LoseObjects() {
	c.losses.Add(1)
	if c.History != nil {
		c.History.Disturb()
	}
}

// Rebuilt makes the collection use a rebuilt file. lost is true if the file has lost objects, and behind if handlers
// must receive every object again. The caller holds the file's writer lock.
func (c *Collection) Rebuilt(ctx context.Context, lost, behind bool) (err error) {
	c.recorded.Store(0) // Dirty writes may be in the new file's changelog already; they are added a second time.
	if lost {
		err = c.recount(ctx)
	}
	if behind {
		err = errors.Join(err, c.resetCursors(ctx))
	}
	if c.resident.Load() != nil {
		c.StartLoading() // The file may have lost some of the objects in memory.
	}
	return err
}

// RestartBuild builds the indexes after a rebuild: the failure of the store has ended the builds.
func (c *Collection) RestartBuild() { c.startBuild() }

// resetCursors makes all durable handlers receive every object again, after a rebuild has lost objects or tombstones.
func (c *Collection) resetCursors(ctx context.Context) error {
	return c.Read.View(ctx, func(b *bolt.Bucket) error {
		st, err := GetState(b, c.Read.Name)
		if err == nil {
			c.cursors.ResetAll(st.Log)
			c.Commits.Add(c, 0)
		}
		return err
	})
}

// recount recomputes the memtable's Info from the rebuilt file, which has lost objects, and the writes in the memtable.
func (c *Collection) recount(ctx context.Context) error {
	c.front.Lock()
	defer c.front.Unlock()
	before, dirty := c.Read.Memtable.Current()
	if !dirty {
		return nil
	}
	return c.Read.View(ctx, func(b *bolt.Bucket) error {
		st, err := GetState(b, c.Read.Name)
		if err != nil {
			return err
		}
		objects, err := c.Read.Objects(b)
		if err != nil {
			return err
		}
		for _, x := range c.Read.Memtable.All() {
			old, err := c.Read.Stored(objects, x.Key)
			if err != nil {
				return err
			}
			CountWrite(&st.Info, x, old.Found)
		}
		before.Objects, before.Newest = st.Objects, st.Newest
		if st.MustRelist != "" {
			// The rebuild has set MustRelist, or the file had a reason before.
			before.MustRelist = st.MustRelist
		}
		c.Read.Memtable.Correct(func(now Covers) Covers {
			now.Info = before.Info
			return now
		})
		return nil
	})
}

// Revive creates the missing buckets of the collection in a rebuilt file, and writes the positions of its durable
// handlers. If lost is true, objects or tombstones are missing, and the handlers receive every object again.
func (c *Collection) Revive(tx *bolt.Tx, lost bool) error {
	if err := c.create(tx); err != nil {
		return err
	}
	return UpdateState(tx, c.Read.Name, func(b *bolt.Bucket, st *CollectionState) error {
		c.claim(st, c.Set.Load())
		if err := CreateBuckets(b, *st); err != nil {
			return err
		}
		return c.cursors.Revive(b, c.Read.Name, &st.Log, lost)
	})
}
