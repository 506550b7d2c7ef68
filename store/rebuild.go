package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/copier"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/internal/format"
)

// MustRelistDamaged is Info.MustRelist of a collection that has lost objects by damage, until it is listed.
const MustRelistDamaged = format.MustRelistDamaged

// MustRelistInterrupted is Info.MustRelist while only a part of a list's changes is visible, and after a crash then.
const MustRelistInterrupted = format.MustRelistInterrupted

// Rebuild writes the store anew after ErrOutcomeUnknown or ErrDamaged. It copies all readable records to a new file,
// which takes the name and the lock of the old file. The old file is moved aside, as Open does with a damaged file.
// Open collections go on working with the new file.
//
// If a collection has lost objects, its Info.MustRelist is MustRelistDamaged and its Losses has grown. If its state
// could not be read at all, an open collection is empty, and a closed one is missing from the new file.
//
// If the store has not failed, Rebuild checks it, and does nothing if it is sound. If Rebuild fails, reads go on from
// the old file, and Rebuild can be called again. On Windows, where an open file cannot be renamed, it always fails.
func (s *Store) Rebuild(ctx context.Context) error {
	switch {
	case s.ReadOnly():
		return fmt.Errorf("rebuild %s: %w", s.file.Path, ErrReadOnly)
	case !boltfile.RenamesOpen:
		return fmt.Errorf("rebuild %s: not possible on this system; close the store and open it again", s.file.Path)
	}
	before, failure := s.live.failure(s.file)
	if failure == nil {
		report, err := s.Check(ctx)
		if err != nil || len(report.Problems) == 0 {
			return err
		}
		failure = fmt.Errorf("%w: %s", entry.ErrDamaged, report.Problems[0])
	}
	rebuilt, err := s.rebuild(ctx, before, failure)
	for _, c := range rebuilt {
		c.startBuild() // the failure of the store has ended the builds
	}
	if err != nil {
		return fmt.Errorf("rebuild %s: %w", s.file.Path, err)
	}
	// Flush commits the changes that are dirty since the failure: the commit loop retries only later. CommitErr returns
	// the error if this Flush fails.
	_ = s.Flush(ctx)
	return nil
}

// rebuild exchanges the file for a copy of its readable records, unless another call has done so since the number of
// rebuilds was before. It returns the open collections, which now use the new file.
func (s *Store) rebuild(ctx context.Context, before int, why error) ([]*Collection, error) {
	end, err := s.file.BeginExchange(ctx, rebuilding)
	if err != nil {
		return nil, err
	}
	defer end()
	if s.live.rebuildCount() != before {
		return nil, nil
	}
	c := s.copier(nil)
	c.Salvage, c.Revive = true, s.revive
	moved, err := s.file.Exchange(ctx, boltfile.Exchange{
		Copy: c.Copy, Aside: true, InUse: func() { s.live.rebuilt(c.Lost) },
	})
	if err != nil {
		return nil, err
	}
	s.logger().Error(why, "The store has been written anew", "movedTo", moved, "collectionsThatLostObjects", len(c.Lost))
	for name, reason := range c.Lost {
		s.logger().Info("A collection has lost unreadable records, and must be listed", "collection", name, "reason",
			reason.Error())
	}
	rebuilt := s.live.list()
	for _, live := range rebuilt { // other goroutines cannot write until end releases the locks
		live.recorded.Store(0) // dirty writes may be in the new file's changelog already; they are added a second time
		if c.Lost[live.read.Name] != nil {
			err = errors.Join(err, live.recount(context.WithoutCancel(ctx)))
		}
		if c.Behind[live.read.Name] {
			err = errors.Join(err, live.resetCursors(context.WithoutCancel(ctx)))
		}
		live.forgetResidents()
	}
	return rebuilt, err
}

// recount recomputes the memtable's Info from the rebuilt file, which has lost objects, and the writes in the memtable.
func (c *Collection) recount(ctx context.Context) error {
	c.in.Front.Lock()
	defer c.in.Front.Unlock()
	before, dirty := c.read.Memtable.Current()
	if !dirty {
		return nil
	}
	return c.read.View(ctx, func(b *bolt.Bucket) error {
		st, err := engine.GetState(b, c.read.Name)
		if err != nil {
			return err
		}
		objects, err := c.read.Objects(b)
		if err != nil {
			return err
		}
		for _, x := range c.read.Memtable.All() {
			old, err := c.read.Stored(objects, x.Key)
			if err != nil {
				return err
			}
			engine.CountWrite(&st.Info, x, old.Found)
		}
		before.Objects, before.Newest = st.Objects, st.Newest
		if st.MustRelist != "" {
			// The rebuild has set MustRelist, or the file had a reason before.
			before.MustRelist = st.MustRelist
		}
		c.read.Memtable.Correct(func(now engine.Covers) engine.Covers {
			now.Info = before.Info
			return now
		})
		return nil
	})
}

// revive adds each open collection and its durable handlers to a rebuilt file, even if the old ones are unreadable.
func (s *Store) revive(c *copier.Copier) error {
	err := c.Write(s.file.PutTimes)
	for _, live := range s.live.list() {
		if err != nil {
			return err
		}
		err = c.Write(func(tx *bolt.Tx) error {
			_, err := engine.CollectionBucket(tx, live.read.Name)
			if errors.Is(err, ErrNoCollection) && c.Lost[live.read.Name] == nil {
				c.Lost[live.read.Name], c.Behind[live.read.Name] = entry.ErrDamaged, true
			}
			return live.revive(tx, c.Behind[live.read.Name])
		})
	}
	return err
}

// revive creates the missing buckets of a collection in a rebuilt file, and writes the positions of its durable
// handlers. If lost is true, objects or tombstones are missing, and the handlers receive every object again.
func (c *Collection) revive(tx *bolt.Tx, lost bool) error {
	if err := c.create(tx); err != nil {
		return err
	}
	return engine.UpdateState(tx, c.read.Name, func(b *bolt.Bucket, st *engine.CollectionState) error {
		c.claim(st, c.in.Set.Load())
		if err := engine.CreateBuckets(b, *st); err != nil {
			return err
		}
		return c.cursors.Revive(b, c.read.Name, &st.Log, lost)
	})
}
