package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/internal/format"
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
// ErrCollectionOpen if ctx ends or Close gives up waiting for the disk. Collection also waits for other writes if it
// has to write. If ctx ends first, the error names that write.
//
// A goroutine builds the indexes that the file does not have, and the indexes of functions without a version (see
// CollectionOptions.IndexVersions). It ends with Collection.Close or Store.Close. If more than records of the
// collection is damaged, Collection fails with ErrDamaged, and so does the store (Err).
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
	c, err := openCollection(ctx, s, name, id, o)
	if err != nil {
		s.open.Release(name)
		return nil, fmt.Errorf("open the collection of %s: %w", id, err)
	}
	c.claimed = claimed
	s.live.add(c)
	s.commits.Join(c.core)
	if o.Residency == All && !s.ReadOnly() {
		c.core.StartLoading()
	}
	return c, nil
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

type liveSet struct {
	mu      sync.Mutex // mu guards the other fields
	all     map[*Collection]struct{}
	opening chan struct{} // opening is closed when the next collection is opened
}

func newLiveSet() liveSet {
	return liveSet{all: map[*Collection]struct{}{}, opening: make(chan struct{})}
}

func (l *liveSet) list() []*Collection {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.all))
}

func (l *liveSet) add(c *Collection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[c] = struct{}{}
	close(l.opening)
	l.opening = make(chan struct{})
}

func (l *liveSet) remove(c *Collection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, c)
}

// ErrOtherCluster says that another open collection of the store is connected to another cluster. A store holds objects
// of one cluster; open a second store for the other cluster.
var ErrOtherCluster = errors.New("the store is used for another cluster")

// ClaimCluster says that the collection is connected to the cluster id (Attributes.ClusterID) while it is open. It
// fails with ErrOtherCluster if an open collection of this Store has claimed another cluster, so that one file never
// mixes objects of two clusters. Two claims always succeed, because the cluster behind an address may be exchanged, and
// collections notice the exchange one after the other: a repeated claim of the same cluster, and a claim with exchanged
// set, if the stored objects came from another cluster.
//
// An empty id says that the cluster is not known. An empty id or a refused claim removes the collection's claim. The
// file does not store claims, because the cluster that its objects came from may no longer exist.
func (c *Collection) ClaimCluster(id string, exchanged bool) error {
	l := &c.store.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == c.cluster {
		return nil
	}
	c.cluster = ""
	if !exchanged && id != "" {
		if other := l.otherClusterLocked(id); other != "" {
			return fmt.Errorf("%w: %s has objects of another one; each cluster needs a store of its own", ErrOtherCluster, other)
		}
	}
	c.cluster = id
	return nil
}

// otherClusterLocked returns the name of a collection that has claimed another cluster than id. The caller holds mu.
func (l *liveSet) otherClusterLocked(id string) (first string) {
	for c := range l.all {
		if name := c.core.ID.String(); c.cluster != "" && c.cluster != id && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// Describe stores a description of a collection's resource: its names and the columns that kubectl prints. Fields that
// r does not set keep their values. Nil Categories or Columns count as not set; empty slices count as set. Describe
// writes nothing if r changes nothing. It fails with ErrNoCollection if the file does not have the collection.
func (s *Store) Describe(ctx context.Context, id entry.Identity, r entry.ResourceInfo) error {
	id, err := id.Canonical()
	if err != nil {
		return err
	}
	name, known := id.ID(), false
	err = s.file.View(ctx, func(tx *bolt.Tx) error {
		_, st, err := engine.FindCollection(tx, name)
		known = reflect.DeepEqual(st.Info.Resource, st.Info.Resource.With(r))
		return err
	})
	if err != nil || known {
		return err
	}
	return s.file.Update(ctx, boltfile.Work{What: "the description of " + id.String()}, func(tx *bolt.Tx) error {
		return engine.UpdateState(tx, name, func(_ *bolt.Bucket, st *engine.CollectionState) error {
			st.Info.Resource = st.Info.Resource.With(r)
			return nil
		})
	})
}

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
