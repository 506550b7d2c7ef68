package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/body"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/state"
)

// Errors of opening and dropping a collection.
var (
	// ErrNoCollection is returned if the store has no collection of that identity.
	ErrNoCollection = state.ErrNone
	// ErrCollectionOpen is returned if the collection is open already. A collection has one writer: share the open
	// Collection, or close it first.
	ErrCollectionOpen = errors.New("the collection is open")
)

// openSet holds the claims of the collections of a store that are open. The zero value is empty.
type openSet struct {
	mu    sync.Mutex
	names map[string]*claim // guarded by mu
}

// claim is the right to a name in an openSet, which a Collection has while it is open.
type claim struct {
	free    chan struct{} // closed when the claim is released
	stuck   chan struct{} // closed when Close gives up waiting for the disk; the claim is released later
	closing func() bool   // reports whether the holder is about to release the claim
}

func soon() bool  { return true }
func later() bool { return false }

// take claims a name and returns the claim as mine. If the name is claimed already it returns that claim as held.
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

// await claims a name. If the name is claimed and the holder is about to release it, await waits for that. Else, or if
// ctx ends or the holder is stuck, it fails with ErrCollectionOpen.
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

// Collection opens or creates a collection. If the collection is open it fails with ErrCollectionOpen: at once, unless
// the holder is about to close the collection (see CollectionOptions.Closing). Then it waits for Close, until ctx ends
// or Close gives up waiting for the disk. Collection also waits for a rebuild, and for any other writer if it has to
// write. If ctx ends first, the error names the writer.
//
// Indexes that the file does not have yet, and those of functions without a version (see
// CollectionOptions.IndexVersions), are built in the background, by a goroutine that ends with
// Collection.Close or Store.Close.
//
// If what it reads is damaged it calls Rebuild: the collection is empty then if its state could not be read.
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
	if s.commits.takesIn() != nil {
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
		c.startLoading()
	}
	return c, nil
}

// openAndEnlist opens a collection and adds it to the live ones. It starts again if the store was rebuilt, or got its
// file, meanwhile: the new file may lack the collection. If the collection is damaged it has the store rebuilt, once:
// nobody else would, and a program would fail at every start.
func (s *Store) openAndEnlist(
	ctx context.Context, name string, id entry.Identity, o CollectionOptions,
) (*Collection, error) {
	for repaired := false; ; {
		before := s.live.rebuildCount()
		c, err := openCollection(ctx, s, name, id, o)
		switch {
		case err != nil && s.live.rebuildCount() != before: // it may have used the old file and the new one
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
		c.workers.stop()
		if err != nil {
			return nil, err
		}
	}
}

// Collections returns the state of every collection in the file, whether it is open or not.
func (s *Store) Collections(ctx context.Context) ([]entry.Info, error) {
	states, err := readStates(ctx, s.file)
	if err != nil {
		return nil, err
	}
	var infos []entry.Info
	for _, st := range states {
		if err := s.noteScope(ctx, &st.Info); err != nil {
			return nil, err
		}
		infos = append(infos, st.Info)
	}
	return infos, nil
}

// noteScope sets Resource.Namespaced if the first key of the collection has a namespace. It does nothing if Namespaced
// is set already, or if Newest has refs, which show it. Damage is ignored.
func (s *Store) noteScope(ctx context.Context, info *entry.Info) error {
	if info.Resource.Namespaced || info.Objects == 0 || len(info.Newest) > 0 {
		return nil
	}
	r := s.reader(info.Identity.ID(), nil)
	err := r.View(ctx, func(b *bolt.Bucket) error {
		objects, err := r.Objects(b)
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

// readStates returns the state of every collection in the file.
func readStates(ctx context.Context, f *boltfile.File) (states []state.State, err error) {
	err = f.View(ctx, func(tx *bolt.Tx) error {
		root := tx.Bucket(format.BucketLarder)
		if root == nil {
			return nil
		}
		return root.ForEachBucket(func(name []byte) error {
			st, err := state.Get(root.Bucket(name), string(name))
			if err != nil {
				return err
			}
			states = append(states, st)
			return nil
		})
	})
	return states, err
}

// reader returns the reader of the collection in the bucket of that name. The codec is nil if nothing is decoded.
func (s *Store) reader(name string, c codec.Codec) read.Reader {
	return read.Reader{File: s.file, Name: name, Codec: c, Coder: body.New(name, c, &s.keys)}
}
