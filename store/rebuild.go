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
		c.core.RestartBuild() // the failure of the store has ended the builds
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
		name := live.core.Read.Name
		err = errors.Join(err, live.core.Rebuilt(context.WithoutCancel(ctx), c.Lost[name] != nil, c.Behind[name]))
	}
	return rebuilt, err
}

// revive adds each open collection and its durable handlers to a rebuilt file, even if the old ones are unreadable.
func (s *Store) revive(c *copier.Copier) error {
	err := c.Write(s.file.PutTimes)
	for _, live := range s.live.list() {
		if err != nil {
			return err
		}
		err = c.Write(func(tx *bolt.Tx) error {
			_, err := engine.CollectionBucket(tx, live.core.Read.Name)
			if errors.Is(err, ErrNoCollection) && c.Lost[live.core.Read.Name] == nil {
				c.Lost[live.core.Read.Name], c.Behind[live.core.Read.Name] = entry.ErrDamaged, true
			}
			return live.core.Revive(tx, c.Behind[live.core.Read.Name])
		})
	}
	return err
}
