package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/internal/format"
)

// dropAtOnce is the maximum number of objects and tombstones in a collection that one transaction removes. bbolt reads
// each page of the collection, and blocks other writes meanwhile. For 100,000 objects outside the page cache this took
// seconds on a fast disk, and would take minutes on a memory card.
const dropAtOnce = 2000

// Drop removes a collection with its contents. The file keeps its size until Compact, and each commit writes the list
// of free pages, 8 bytes for each. Drop fails with ErrCollectionOpen while the collection is open, and with
// ErrNoCollection if there is none. It may grow the file past Options.MaxSize, by some pages that are free afterwards:
// otherwise a full file would stay full.
//
// One transaction makes the collection disappear, so a crash never leaves part of it. Further transactions free the
// pages of a large collection, and other writes run between them. If ctx ends, this continues in the background, and
// after a crash it continues after the next Open.
func (s *Store) Drop(ctx context.Context, id entry.Identity) error {
	id, err := id.Canonical()
	if err != nil {
		return err
	}
	if err := s.drop(ctx, id.ID()); err != nil {
		return fmt.Errorf("drop the collection of %s: %w", id, err)
	}
	return nil
}

// Prune drops each collection that this program has not opened for writing since Open, and logs a line for each. An
// informer opens its collection when it is created, so call Prune after the program has created all of its informers.
// Prune also drops the collection of an informer that is created later, with the positions of its durable handlers.
func (s *Store) Prune(ctx context.Context) error {
	states, err := s.states(ctx)
	if err != nil {
		return fmt.Errorf("prune %s: %w", s.file.Path, err)
	}
	for _, st := range states {
		name := st.Identity.ID()
		if _, opened := s.opened.Load(name); opened {
			continue
		}
		switch err := s.drop(ctx, name); {
		case err == nil:
			s.logger().Info("A collection that this program has not opened was dropped", "collection", st.Identity.String(),
				"objects", st.Objects)
		case errors.Is(err, ErrCollectionOpen), errors.Is(err, ErrNoCollection): // the collection was just opened or dropped
		default:
			return fmt.Errorf("prune %s: drop the collection of %s: %w", s.file.Path, st.Identity, err)
		}
	}
	return nil
}

func (s *Store) drop(ctx context.Context, name string) error {
	left, err := s.unlink(ctx, name)
	if err == nil && left {
		s.file.ClearDropped(ctx)
	}
	return err
}

// unlink removes a collection in one transaction. left is true if ClearDropped has yet to free the collection's pages.
func (s *Store) unlink(ctx context.Context, name string) (left bool, err error) {
	if !s.open.Try(name) {
		return false, ErrCollectionOpen
	}
	defer s.open.Release(name)
	err = s.file.Update(ctx, boltfile.Dropping, func(tx *bolt.Tx) error {
		_, st, err := engine.FindCollection(tx, name)
		if err != nil && !isDamaged(err) {
			return err
		}
		if left = err != nil || st.Objects+st.Log.Tombstones > dropAtOnce; left {
			return boltfile.Drop(tx, []byte(name))
		}
		return tx.Bucket(format.BucketLarder).DeleteBucket([]byte(name))
	})
	return left, err
}
