package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/indexer"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Collection is one collection of a Store. The package documentation draws its part of the file.
type Collection struct {
	read     engine.Reader
	store    *Store
	id       entry.Identity // id is in canonical form
	in       engine.Intake  // in receives batches and lists; in.Set changes only with mu held
	resource entry.ResourceInfo
	readOnly bool

	cluster string // cluster is the id that ClaimCluster has claimed; store.live.mu guards it

	// mu is held for each write transaction except a Flush, and never while user code runs. Lock order: mu, then in.Front.
	mu       base.Mutex
	closed   bool          // closed makes Apply fail after Close; in.Front guards it
	released atomic.Bool   // released is true once Close has ended and the collection can be opened again
	ending   atomic.Bool   // ending is true once Close was called
	claimed  *engine.Claim // claimed holds the name in store.open; it is set before Store.Collection returns
	// idledFor is 1 plus the Generation of the engine.IndexSet for which a commit last marked the stored indexes without a
	// function as idle (engine.IndexEntries.Idle); 0 before the first commit.
	idledFor atomic.Int64
	recorded atomic.Uint64 // recorded is the timeline of the history that the file's changelog continues; 0 is none

	residency Residency
	// resident has the objects in memory; nil unless the Residency is All. It changes only with in.Front held.
	resident atomic.Pointer[engine.Residents]

	workers    *boltfile.Workers
	builder    engine.IndexBuilder // builder builds the indexes that are not ready
	started    atomic.Bool         // started is true once BuildIndexes was called; it is set before objects are written
	compressor *crypt.Compressor   // compressor compresses new records; nil if Compression is off

	committed func(Commit) // committed is CollectionOptions.Committed; may be nil
	decodes   func() bool  // decodes is CollectionOptions.Decodes; may be nil

	cursors    changelog.Cursors // cursors are the positions of the durable handlers in the changelog
	tombstones int               // tombstones is the maximum number of tombstones in the changelog
}

const (
	// listLimit bounds the differences from the stored objects that a list holds in memory, and the changes that one
	// Replacement.Commit returns, in encoded bytes. Decoded objects take several times as much. listLimitAll is the bound
	// with the Residency All: it is small compared to the objects in memory, and readers then see the whole list at once.
	listLimit    = 16 << 20
	listLimitAll = 256 << 20
)

func limitsOf(r Residency) engine.ReplaceLimits {
	n := listLimit
	if r == All {
		n = listLimitAll
	}
	return engine.ReplaceLimits{Held: n, Step: n}
}

var _ Interface = (*Collection)(nil)

func openCollection(
	ctx context.Context, s *Store, name string, id entry.Identity, o CollectionOptions,
) (*Collection, error) {
	set, err := engine.NewIndexSet(o.Indexers, versionsWith(o.Codec, o.IndexVersions))
	if err != nil {
		return nil, err
	}
	c := &Collection{
		mu:    base.NewMutex(),
		read:  s.reader(name, o.Codec),
		store: s,
		id:    id,
		in: engine.Intake{ID: id, KeyFunc: o.KeyFunc, Limits: limitsOf(o.Residency), Codec: o.Codec,
			Indexing: base.NewMutex()},
		resource:  o.Resource,
		readOnly:  s.ReadOnly(),
		committed: o.Committed, decodes: o.Decodes, residency: o.Residency,
		workers: s.file.Workers(),

		tombstones: changelog.MaxTombstones,
	}
	c.in.Back, c.read.Memtable = back{c}, engine.NewMemtable[engine.Covers]()
	c.read.CustomKeys = engine.CustomKeys(o.KeyFunc)
	if o.Compression != NoCompression {
		c.compressor = crypt.NewCompressor()
	}
	if o.History > 0 && !c.readOnly {
		c.in.History = history.New(o.History)
	}
	if c.in.KeyFunc == nil {
		c.in.KeyFunc = cache.DeletionHandlingMetaNamespaceKeyFunc
	}
	if err := c.lockWrites(ctx); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if err := c.findOrMake(ctx, o.Seal); err != nil {
		return nil, err
	}
	if !c.readOnly {
		s.opened.Store(name, nil)
	}
	if err := c.loadDictionary(ctx); err != nil {
		return nil, err
	}
	if err := c.loadCursors(ctx); err != nil {
		return nil, err
	}
	if err := c.beginHistory(ctx, o.History); err != nil {
		return nil, err
	}
	if err := c.claimLocked(ctx, set); err != nil {
		return nil, err
	}
	return c, c.logPlainText(ctx)
}

// findOrMake decides whether the collection is sealed, and creates its buckets if the file does not have them.
func (c *Collection) findOrMake(ctx context.Context, mustSeal bool) error {
	var st engine.CollectionState
	err := c.store.file.View(ctx, func(tx *bolt.Tx) (err error) {
		var b *bolt.Bucket
		if b, st, err = engine.FindCollection(tx, c.read.Name); err == nil {
			err = engine.CheckBuckets(&c.read, b, st)
		}
		return err
	})
	missing := errors.Is(err, ErrNoCollection) && !c.readOnly
	if err == nil || missing {
		err = c.beginSealing(st, mustSeal)
	}
	if err == nil && missing {
		err = c.update(ctx, c.create)
	}
	return err
}

func (c *Collection) create(tx *bolt.Tx) error {
	return engine.CreateCollection(tx, c.read.Name, engine.CollectionState{
		Info: entry.Info{
			Identity: c.id, Resource: c.resource, Sealed: c.read.Coder.Sealing(),
		},
		Log: changelog.State{NextSeq: 1},
	})
}

// Identity returns the identity of the collection, in canonical form.
func (c *Collection) Identity() entry.Identity { return c.id }

// SetMustRelist sets Info.MustRelist and commits it.
func (c *Collection) SetMustRelist(ctx context.Context, reason string) error {
	if err := c.setMustRelist(ctx, reason); err != nil {
		return fmt.Errorf("mark %s for a relist: %w", c.id, err)
	}
	return nil
}

func (c *Collection) setMustRelist(ctx context.Context, reason string) error {
	if err := c.in.MarkMustRelist(ctx, reason); err != nil {
		return err
	}
	return c.store.Flush(ctx)
}

// Indexer returns the collection as a cache.Indexer of client-go.
func (c *Collection) Indexer() *indexer.Indexer {
	return indexer.New(c, &c.in, c.remaining)
}
