package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Errors of opening and dropping a collection.
var (
	// ErrNoCollection is returned if the store has no collection of that identity.
	ErrNoCollection = engine.ErrNoCollection
	// ErrCollectionOpen is returned if the collection is open already. A collection has one writer: share the open
	// Collection, or close it first.
	ErrCollectionOpen = engine.ErrHeld
)

// CollectionOpenError is the error of opening a collection that is open and not about to be closed. It wraps
// ErrCollectionOpen, and has the CollectionOptions.Holder of the call that opened the collection.
type CollectionOpenError = engine.HeldError

// Collection opens or creates a collection. If the collection is open it fails at once with a CollectionOpenError. But
// if the owner is about to close the collection (CollectionOptions.Closing), it waits for Close, and fails with
// ErrCollectionOpen if ctx ends or Close gives up waiting for the disk. Collection also waits for a rebuild, and for
// other writes if it has to write. If ctx ends first, the error names that write.
//
// A goroutine builds the indexes that the file does not have, and the indexes of functions without a version (see
// CollectionOptions.IndexVersions). It ends with Collection.Close or Store.Close. If the collection is damaged,
// Collection calls Rebuild. The collection is then empty if its state could not be read.
func (s *Store) Collection(ctx context.Context, id entry.Identity, o CollectionOptions) (*Collection, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	if o.Codec == nil {
		return nil, fmt.Errorf("collection of %s: CollectionOptions.Codec must be set", id)
	}
	if err := o.Compression.validate(); err != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, err)
	}
	if s.commits.CheckOpen() != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, ErrClosed)
	}
	name := id.ID()
	claimed, err := s.open.Await(ctx, name, o.Closing, o.Holder)
	if err != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, err)
	}
	c, err := s.openAndEnlist(ctx, name, id, o)
	if err != nil {
		s.open.Release(name)
		return nil, fmt.Errorf("open the collection of %s: %w", id, err)
	}
	c.claimed = claimed
	if o.Residency == All && !c.readOnly {
		c.startLoading()
	}
	return c, nil
}

// openAndEnlist opens a collection and adds it to s.live. If the store was rebuilt meanwhile it starts again, because
// the new file may lack the collection. It calls Rebuild once if the collection is damaged: nothing else does before
// the collection is open, and the program would fail at every start.
func (s *Store) openAndEnlist(
	ctx context.Context, name string, id entry.Identity, o CollectionOptions,
) (*Collection, error) {
	for repaired := false; ; {
		before := s.live.rebuildCount()
		c, err := openCollection(ctx, s, name, id, o)
		switch {
		case err != nil && s.live.rebuildCount() != before: // openCollection may have read both the old and the rebuilt file
			continue
		case errors.Is(err, entry.ErrDamaged) && !repaired && !s.ReadOnly() && s.Rebuild(ctx) == nil:
			repaired = true
			continue
		case err != nil:
			return nil, err
		}
		enlisted, err := s.enlist(ctx, c, before)
		if enlisted {
			return c, nil
		}
		c.workers.Stop()
		if err != nil {
			return nil, err
		}
	}
}

// Collections returns the state of every collection in the file, whether it is open or not.
func (s *Store) Collections(ctx context.Context) ([]entry.Info, error) {
	states, err := s.states(ctx)
	if err != nil {
		return nil, err
	}
	var infos []entry.Info
	for _, st := range states {
		r := s.reader(st.Identity.ID(), nil)
		if err := r.NoteScope(ctx, &st.Info); err != nil {
			return nil, err
		}
		infos = append(infos, st.Info)
	}
	return infos, nil
}

func (s *Store) reader(name string, c codec.Codec) engine.Reader {
	return engine.Reader{File: s.file, Name: name, Codec: c, Coder: crypt.NewCoder(name, c, &s.keys)}
}

func (s *Store) states(ctx context.Context) (states []engine.CollectionState, err error) {
	err = s.file.View(ctx, func(tx *bolt.Tx) error {
		states, err = engine.AllStates(tx)
		return err
	})
	return states, err
}
