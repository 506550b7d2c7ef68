package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// Errors of opening and dropping a collection.
var (
	// ErrNoCollection: the store has no collection of that identity.
	ErrNoCollection = errors.New("no such collection in the store")
	// ErrCollectionOpen: the collection is open already. A collection has one
	// writer; close the other one first, or share it.
	ErrCollectionOpen = errors.New("the collection is open")
)

// openSet is the collections of a store that are open. The zero value is empty.
type openSet struct {
	mu    sync.Mutex
	names map[string]*claim // guarded by mu
}

// claim is that of the one who has a name.
type claim struct {
	free    chan struct{} // closed when the name is given free
	stuck   chan struct{} // closed when that should have happened, and the disk does not let it
	closing func() bool   // whether that is about to happen
}

func soon() bool  { return true }
func later() bool { return false }

// take claims a name, or returns the claim of the one who has it.
func (o *openSet) take(name string, closing func() bool) (mine, held *claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if held := o.names[name]; held != nil {
		return nil, held
	}
	if o.names == nil {
		o.names = map[string]*claim{}
	}
	mine = &claim{free: make(chan struct{}), stuck: make(chan struct{}), closing: closing}
	o.names[name] = mine
	return mine, nil
}

// await claims a name, and waits for it while the one who has it is about to give it free.
func (o *openSet) await(ctx context.Context, name string, closing func() bool) (*claim, error) {
	for {
		mine, held := o.take(name, closing)
		if held == nil {
			return mine, nil
		}
		if !held.isStuck() && !held.closing() {
			return nil, ErrCollectionOpen
		}
		select {
		case <-held.free:
		case <-held.stuck:
			return nil, fmt.Errorf("%w: it is being closed, which has begun to take too long: %w", ErrCollectionOpen,
				ErrStillWriting)
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: whoever has it is about to close it, and has not yet: %w", ErrCollectionOpen, ctx.Err())
		}
	}
}

func (c *claim) isStuck() bool {
	select {
	case <-c.stuck:
		return true
	default:
		return false
	}
}

func (o *openSet) holds(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.names[name] != nil
}

func (o *openSet) release(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.names[name].free)
	delete(o.names, name)
}

// Collection opens or creates a collection. Opening one twice at a time fails with ErrCollectionOpen: at once, or, if
// the one who has it is about to close it (see CollectionOptions.Closing), when ctx ends before that, or the disk has
// not let Close finish. Collection.Close gives it free. For a rebuild, and where it has to write itself for any writer,
// it waits as long as ctx lasts; the error names who that is.
//
// Indexes that the file does not have yet, and those of functions without a version (see
// CollectionOptions.IndexVersions), are built in the background, by a goroutine that ends with
// Collection.Close or Store.Close.
func (s *Store) Collection(ctx context.Context, id entry.Identity, o CollectionOptions) (*Collection, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	if o.Codec == nil {
		return nil, fmt.Errorf("collection of %s: CollectionOptions.Codec must be set", id)
	}
	if err := o.Residency.validate(); err != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, err)
	}
	if err := o.Compression.validate(); err != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, err)
	}
	if s.isClosed() {
		return nil, fmt.Errorf("collection of %s: %w", id, ErrClosed)
	}
	name := id.ID()
	closing := o.Closing
	if closing == nil {
		closing = later
	}
	claimed, err := s.open.await(ctx, name, closing)
	if err != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, err)
	}
	c, err := s.openAndEnlist(ctx, name, id, o)
	if err != nil {
		s.open.release(name)
		return nil, fmt.Errorf("open the collection of %s: %w", id, err)
	}
	c.claimed = claimed
	if o.Residency.kind == residentAll && !c.readOnly {
		c.startFilling()
	}
	return c, nil
}

// openAndEnlist opens a collection, again if the store was rebuilt, or got its file, meanwhile: the new
// file need not have it.
func (s *Store) openAndEnlist(
	ctx context.Context, name string, id entry.Identity, o CollectionOptions,
) (*Collection, error) {
	for {
		before := s.rebuildCount()
		c, err := openCollection(ctx, s, name, id, o)
		switch {
		case err != nil && s.rebuildCount() != before: // it may have met both files
			continue
		case err != nil:
			return nil, err
		}
		enlisted, err := s.enlist(ctx, c, before)
		if enlisted {
			return c, nil
		}
		c.builds.stop()
		if err != nil {
			return nil, err
		}
	}
}

// Collections returns the state of every collection in the file, opened or not.
func (s *Store) Collections(ctx context.Context) ([]Info, error) {
	states, err := s.states(ctx)
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, st := range states {
		if err := s.noteScope(ctx, &st.Info); err != nil {
			return nil, err
		}
		infos = append(infos, st.Info)
	}
	return infos, nil
}

// noteScope looks at the first key of a collection that does not say that its objects are in namespaces, where Newest
// does not show it. Damage is not its concern.
func (s *Store) noteScope(ctx context.Context, info *Info) error {
	if info.Resource.Namespaced || info.Objects == 0 || len(info.Newest) > 0 {
		return nil
	}
	r := reader{store: s, name: info.Identity.ID()}
	err := r.view(ctx, func(b *bolt.Bucket) error {
		objects, err := r.objects(b)
		if err != nil {
			return err
		}
		keys := boltfile.ScanAfter(objects, "")
		first, _ := keys.Next()
		info.Resource.Namespaced = bytes.Contains(first, []byte("/"))
		return keys.Err
	})
	if isDamaged(err) || errors.Is(err, ErrNoCollection) {
		return nil
	}
	return err
}

func (s *Store) states(ctx context.Context) (states []state, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		root := tx.Bucket(format.BucketLarder)
		if root == nil {
			return nil
		}
		return root.ForEachBucket(func(name []byte) error {
			st, err := getState(root.Bucket(name), string(name))
			if err != nil {
				return err
			}
			states = append(states, st)
			return nil
		})
	})
	return states, err
}

// collectionBucket returns the bucket of that name.
func collectionBucket(tx *bolt.Tx, name string) (*bolt.Bucket, error) {
	if root := tx.Bucket(format.BucketLarder); root != nil {
		if b := root.Bucket([]byte(name)); b != nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("collection %s: %w", name, ErrNoCollection)
}
