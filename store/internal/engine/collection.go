package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

// Collection is one open collection: of a file, with a memtable, or in memory only. Make it with NewCollection, set
// the exported fields, and call FindOrCreate and Load, or OpenInMemory.
//
// Lock order: mu, then front. Neither is held while user code runs.
type Collection struct {
	ID       entry.Identity     // ID is in canonical form.
	Resource entry.ResourceInfo // Resource has the names of the resource that the user has passed.
	KeyFunc  cache.KeyFunc
	Limits   ReplaceLimits
	// Read reads the file and the memtable. Its File, Codec, Coder and Memtable are nil for a collection in memory.
	Read    Reader
	Commits *CommitLoop // Commits is nil for a collection in memory.
	// History receives the changes of each batch. Read.Codec encodes their objects, unless a write has another encoding.
	// History is nil if no history is kept.
	History    *history.Window
	Compressor *crypt.Compressor // Compressor compresses new records; nil if compression is off.
	Workers    *boltfile.Workers // Workers is nil for a collection in memory.
	Tombstones int               // Tombstones is the maximum number of tombstones in the changelog.
	ReadOnly   bool
	KeepsAll   bool          // KeepsAll is true if all objects are kept in memory (store.All).
	Committed  func(Commit)  // Committed is store.CollectionOptions.Committed; may be nil.
	Decodes    func() bool   // Decodes is store.CollectionOptions.Decodes; may be nil.
	memory     *memoryInfo   // memory is nil for a collection with a file.
	recorded   atomic.Uint64 // recorded is the timeline of the history that the file's changelog continues; 0 is none.
	// idledFor is 1 plus the Generation of the IndexSet for which a commit last marked the stored indexes without a
	// function as idle (IndexEntries.Idle); 0 before the first commit.
	idledFor atomic.Int64
	cursors  changelog.Cursors // cursors are the positions of the durable handlers in the changelog.

	// Set holds the index functions. It changes only with mu held. Writes with index terms of another set are indexed anew
	// before the put.
	Set     atomic.Pointer[IndexSet]
	builder indexBuilder
	started atomic.Bool // started is true once BuildIndexes was called; it is set before objects are written.
	// indexing is held while indexes are built or added. Index functions are called meanwhile, so an index function must
	// not add indexes. Reads and writes do not take indexing, so they do not wait for it.
	indexing base.Mutex
	// resident has the objects in memory; nil unless KeepsAll, or in memory only. It changes only with front held.
	resident atomic.Pointer[Residents]

	mu base.Mutex // mu is held for each write transaction except a commit of the CommitLoop.
	// front is held while writes are put into the memtable. No goroutine waits for the disk while it holds front.
	front sync.Mutex
	// closed makes writes fail after Close. front guards closed.
	closed bool
	// paused is closed at the end of a pause, and otherwise nil. front guards paused.
	paused chan struct{}
	// writes is the number of writes put so far, which numbers the next write. front guards writes.
	writes uint64
	// replacing is the open replacement, or nil. front guards replacing.
	replacing *Replacement
	// unreported holds the keys of objects that an earlier process stored from a list that did not end, and that this
	// process has not reported to handlers. Only the open replacement uses unreported.
	unreported map[string]struct{}
	reported   atomic.Bool // reported is true once this process has reported changes of objects.
}

// NewCollection returns a collection that reads with r: in memory only if r has no File. key may be nil for client-go's
// key function.
func NewCollection(id entry.Identity, r Reader, key cache.KeyFunc) *Collection {
	c := &Collection{ID: id, KeyFunc: key, Read: r, Tombstones: changelog.MaxTombstones, mu: base.NewMutex(),
		indexing: base.NewMutex()}
	c.Read.CustomKeys = CustomKeys(key)
	if key == nil {
		c.KeyFunc = cache.DeletionHandlingMetaNamespaceKeyFunc
	}
	if r.File != nil {
		c.Read.Memtable, c.Workers, c.ReadOnly = NewMemtable[Covers](), r.File.Workers(), r.File.ReadOnly()
	}
	return c
}

// FindOrCreate decides whether the collection is sealed, and creates its buckets if the file does not have them. seals
// says that the store's options seal the resource, and mustSeal that the collection's options seal it.
func (c *Collection) FindOrCreate(ctx context.Context, seals, mustSeal bool) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	var st CollectionState
	err := c.Read.File.View(ctx, func(tx *bolt.Tx) (err error) {
		var b *bolt.Bucket
		if b, st, err = FindCollection(tx, c.Read.Name); err == nil {
			err = CheckBuckets(&c.Read, b, st)
		}
		return err
	})
	missing := errors.Is(err, ErrNoCollection) && !c.ReadOnly
	if err == nil || missing {
		err = c.Read.Coder.Begin(st.Sealed, mustSeal, seals)
		if c.Read.Coder.Sealing() {
			c.Compressor.Seal()
		}
	}
	if err == nil && missing {
		err = c.update(ctx, c.create)
	}
	return err
}

func (c *Collection) create(tx *bolt.Tx) error {
	return CreateCollection(tx, c.Read.Name, CollectionState{
		Info: entry.Info{
			Identity: c.ID, Resource: c.Resource, Sealed: c.Read.Coder.Sealing(),
		},
		Log: changelog.State{NextSeq: 1},
	})
}

// Load reads the state that the file has beside the objects: dictionary, cursors, history and indexes. set has the
// index functions. historyBound is store.CollectionOptions.History.
func (c *Collection) Load(ctx context.Context, set *IndexSet, historyBound int) error {
	if err := c.lockWrites(ctx); err != nil {
		return err
	}
	defer c.mu.Unlock()
	if err := c.loadDictionary(ctx); err != nil {
		return err
	}
	if err := c.loadCursors(ctx); err != nil {
		return err
	}
	if err := c.beginHistory(ctx, historyBound); err != nil {
		return err
	}
	return c.claimLocked(ctx, set)
}

// loadDictionary gives the collection's stored dictionary to the compressor. If the dictionary is damaged or was
// written by a newer program, the compressor builds a new one later. The damage also makes the store fail (Store.Err).
func (c *Collection) loadDictionary(ctx context.Context) error {
	if c.Compressor == nil {
		return nil
	}
	err := c.Read.View(ctx, func(b *bolt.Bucket) error {
		st, err := GetState(b, c.Read.Name)
		if err != nil || st.Dictionary == 0 {
			return err
		}
		dict, err := c.Read.Coder.Get(b.Tx(), st.Dictionary)
		if err == nil {
			c.Compressor.Resume(dict)
		}
		return err
	})
	if errors.Is(err, entry.ErrDamaged) || errors.Is(err, entry.ErrIncompatible) {
		return nil
	}
	return err
}

// markSealed sets Sealed in the state if new records are sealed, and PlainText if the collection has older records.
func (c *Collection) markSealed(st *CollectionState) {
	if !c.Read.Coder.Sealing() || st.Sealed {
		return
	}
	st.Sealed = true
	st.PlainText = st.Objects > 0 || st.NextSeq > 1
}

// beginHistory begins the history with the latest changes in the file's changelog. Without a changelog the history
// begins empty, at the stored resourceVersion.
func (c *Collection) beginHistory(ctx context.Context, bound int) error {
	if c.History == nil {
		return nil
	}
	info, err := c.Read.Info(ctx)
	if err != nil || !info.Complete {
		return err
	}
	if info.MustRelist != "" { // The changelog may lack changes that led to the stored state.
		at, _ := strconv.ParseUint(info.ResourceVersion, 10, 64)
		c.History.Recall(nil, at+1, info.ResourceVersion)
		return nil
	}
	changes, floor, err := c.Read.Recall(ctx, bound)
	switch {
	case format.IsDamagedRecord(err):
		return c.beginHistory(ctx, bound) // Info.MustRelist is set now.
	case err != nil:
		return err
	}
	if c.History.Recall(changes, floor, info.ResourceVersion) {
		timeline, _ := c.History.Timeline()
		c.recorded.Store(timeline)
	}
	return nil
}

// endHistory ends the history once the collection accepts no writes. The caller holds front.
func (c *Collection) endHistory() {
	if c.History != nil {
		c.History.End()
	}
}

// Close commits the uncommitted changes, or drops them on an error, and ends the background work. Writes then fail.
func (c *Collection) Close() error {
	c.builder.report(boltfile.ErrClosed, true) // This comes first so that look-ups that wait for an index fail at once.
	c.Workers.Stop()
	c.cursors.Close()
	err := c.flushAtClose()
	c.Commits.Leave(c)
	return err
}

// flushAtClose commits the dirty changes, or drops them on an error: the next Collection of that name reads the file.
func (c *Collection) flushAtClose() error {
	c.front.Lock()
	c.closed = true
	c.endHistory() // The history ends before the flush, which may wait for the disk.
	c.front.Unlock()
	if _, dirty := c.Read.Memtable.Current(); !dirty && !c.cursors.Dirty() {
		return nil
	}
	err := c.Commits.Flush(context.Background())
	c.Commits.Drop(c)
	if err != nil {
		return fmt.Errorf(
			"close %s: its latest changes are not in the file, and the next start will ask the server for them: %w", c.ID, err)
	}
	return nil
}

// RefuseWrites makes the cursors refuse acknowledgements, after CommitLoop.Close has made writes fail. When it returns,
// every accepted change is in the memtable or committed.
func (c *Collection) RefuseWrites() {
	c.front.Lock() // A batch is applied with front held.
	c.endHistory()
	c.front.Unlock()
	if c.cursors.Close(); c.cursors.Dirty() {
		c.Commits.Add(c, 0)
	}
}

// checkOpen returns an error if the collection accepts no writes. The caller holds front.
func (c *Collection) checkOpen() error {
	switch {
	case c.ReadOnly:
		return boltfile.ErrReadOnly
	case c.closed:
		return fmt.Errorf("the collection has been closed: %w", boltfile.ErrClosed)
	}
	return c.Commits.CheckOpen()
}

// closedErr returns an error if the store has been closed, so that reads fail.
func (c *Collection) closedErr() error {
	if c.Commits.Ended() {
		return fmt.Errorf("%s: %w", c.Read.File.Path, boltfile.ErrClosed)
	}
	return nil
}

// IndexFunc returns the index function of this name. The error wraps ErrNoIndex.
func (c *Collection) IndexFunc(name string) (cache.IndexFunc, error) { return c.Set.Load().Find(name) }

// Indexers returns the index functions. The caller owns the map.
func (c *Collection) Indexers() cache.Indexers { return c.Set.Load().Funcs() }
