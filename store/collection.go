package store

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/indexer"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/query"
)

// Reader reads one collection of objects, from any number of goroutines. Each call sees the state after some batch,
// committed or not; Iterate and Each may see a newer state on each page. No call holds a transaction when it returns.
// Objects are shared and must not be modified.
type Reader interface {
	// Info returns the collection's state.
	Info(ctx context.Context) (entry.Info, error)

	// Get returns the object with that key, or nil if there is none.
	Get(ctx context.Context, key string) (runtime.Object, error)
	// List returns every object, in key order. On an error it also returns the objects that could be read.
	List(ctx context.Context) ([]runtime.Object, error)
	// Keys returns every key, in order. On an error it also returns the keys that could be read.
	Keys(ctx context.Context) ([]string, error)
	// Iterate calls fn for each object whose key follows after, in key order. It reads pages, each in one transaction
	// that is closed before fn is called. It stops at the first error and returns it.
	Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error
	// Select returns the objects that q selects, in key order. On an error it also returns the objects that could be
	// read. It fails with query.ErrNoField if objects of the type have no such field.
	Select(ctx context.Context, q query.Query) ([]runtime.Object, error)
	// Each calls fn for each object that q selects, in key order. It reads pages and stops at an error, as Iterate does.
	Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error

	// ByIndex returns the objects that have any of the values in the named index, each once. Objects with the same value
	// are in key order. ByIndex, IndexKeys and IndexValues wait while the index is being built at a start, and fail if the
	// build has failed or will not be tried.
	ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error)
	// IndexKeys returns the keys of the objects that have the value in the named index.
	IndexKeys(ctx context.Context, index, value string) ([]string, error)
	// IndexValues returns every value of the named index, in order.
	IndexValues(ctx context.Context, index string) ([]string, error)
	// Indexers returns the index functions.
	Indexers() cache.Indexers
}

// Interface is one collection of objects with its resourceVersion. *Collection keeps it in a file, *memory.Collection
// in memory. The only writer is the process loop of an informer.
type Interface interface {
	Reader

	// Apply applies the batch, its index entries and its resourceVersion in one step: reads see all of it or nothing. The
	// next commit writes it to the file (Options.CommitInterval). If Apply fails nothing has changed. After Apply the
	// objects belong to the store and must not be modified.
	Apply(ctx context.Context, b entry.Batch) (entry.Result, error)
	// BeginReplace begins a list. The other writing methods fail until the list is committed or aborted.
	BeginReplace(ctx context.Context, o ReplaceOptions) (Replacement, error)
	// SetMustRelist sets Info.MustRelist: the contents cannot be resumed, for the given reason.
	SetMustRelist(ctx context.Context, reason string) error

	// Refs returns the identities of the objects whose keys follow after, in key order, at most limit of them. They come
	// from the records and the memtable. If the decoded object in memory has another state, or one of the two is missing,
	// the resourceVersion and UID are empty, so that they equal no object of a server.
	Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error)

	// AddIndexers adds index functions. Until the first write (or Collection.BuildIndexes) it returns at once, and one
	// pass builds all indexes later. After that it returns once the indexes are built, as in client-go, and adds nothing
	// if the build fails or ctx ends. Writers wait meanwhile, and readers do not. A function must not look up an index of
	// the collection, write to the collection or add indexes. versions maps index names to versions. As long as the
	// version of a function and the codec's Fingerprint are the same, the next process does not rebuild its index. Without
	// a version each process rebuilds the index, since the results of the function may depend on a flag.
	AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error

	// Indexer returns the collection as a cache.Indexer of client-go.
	Indexer() *indexer.Indexer
}

// ReplaceOptions are the options of BeginReplace.
type ReplaceOptions struct {
	// Rewrite also rewrites the records of unchanged objects if new records have another compression, dictionary or
	// sealing. Every object of the list is decoded, and undecodable objects are left out. If the stored state of an
	// undecodable object cannot be decoded either, its record is deleted, and no change is reported.
	Rewrite bool
	// Attributes are stored with the list, for example the codec that encoded the objects.
	Attributes entry.Attributes
}

// Replacement receives a list page by page. It compares the body and the index terms of each object with the stored
// record, and writes the objects that differ. If UID and resourceVersion are equal, it reports a change only if the
// objects differ by equality.Semantic. In a complete collection all differences become visible with Commit, unless they
// are too large to be held (package documentation, "A list"). In an incomplete collection (a cold start) each page is
// visible at once, and Commit marks the collection complete.
//
// A method that fails has changed nothing, and can be called again, for example once there is space on the disk.
type Replacement interface {
	// Page adds the next items of the list. The result has the changes that are visible from now on; the result of Commit
	// has the others (Result.Staged). leftOut names items that the caller refused, for Info.LeftOut: their old states
	// stay.
	Page(ctx context.Context, items []runtime.Object, leftOut ...entry.LeftOut) (entry.Result, error)
	// Known adds items of the list by reference: an object counts as listed if the collection has a record with that UID
	// and resourceVersion. Known returns the other references, whose objects Page has to add. If ReplaceOptions.Rewrite is
	// set it returns all references.
	Known(ctx context.Context, refs []entry.ObjectRef) (missing []entry.ObjectRef, res entry.Result, err error)
	// Event adds an event that the watch received while the list was paged. It ignores an event that is older than the
	// listed state of its object, and Page ignores an item that is older than an added event. The result has the changes
	// that are visible from now on.
	Event(ctx context.Context, op entry.Op) (entry.Result, error)
	// Commit puts the held changes into the collection, with the list's b.ResourceVersion and b.LastContact; b.Ops must be
	// empty. If there are many changes, Commit puts a part of them and sets Result.More: call it again. Until the last
	// part Info.MustRelist is set. Deletes come first, without Change.New, then the other changes, each in key order.
	Commit(ctx context.Context, b entry.Batch) (entry.Result, error)
	// Abort drops the held changes. It does nothing after the last Commit. If Commit has put a part of the changes,
	// the collection is incomplete, or Info.MustRelist is set; the next list in this process is a diff against them.
	Abort()
}

// Collection is one collection of a Store. The package documentation draws its part of the file.
type Collection struct {
	core    *engine.Collection
	store   *Store
	cluster string        // cluster is the id that ClaimCluster has claimed; store.live.mu guards it
	claimed *engine.Claim // claimed holds the name in store.open; it is set before Store.Collection returns
	ending  atomic.Bool   // ending is true once Close was called
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
	set, err := engine.NewIndexSet(o.Indexers, engine.VersionsWith(o.Codec, o.IndexVersions))
	if err != nil {
		return nil, err
	}
	core := engine.NewCollection(id, s.reader(name, o.Codec), o.KeyFunc)
	core.Commits, core.Resource, core.Decodes = s.commits, o.Resource, o.Decodes
	core.Limits, core.KeepsAll = limitsOf(o.Residency), o.Residency == All
	if o.Committed != nil {
		core.Committed = func(done engine.Commit) { o.Committed(Commit(done)) }
	}
	if o.Compression != NoCompression {
		core.Compressor = crypt.NewCompressor()
	}
	if o.History > 0 && !s.ReadOnly() {
		core.History = history.New(o.History)
	}
	if err := core.FindOrCreate(ctx, s.Seals(id.GroupResource()), o.Seal); err != nil {
		return nil, err
	}
	if !s.ReadOnly() {
		s.opened.Store(name, nil)
	}
	if err := core.Load(ctx, set, o.History); err != nil {
		return nil, err
	}
	c := &Collection{core: core, store: s}
	return c, c.logPlainText(ctx)
}

// Identity returns the identity of the collection, in canonical form.
func (c *Collection) Identity() entry.Identity { return c.core.ID }

// SetMustRelist sets Info.MustRelist and commits it.
func (c *Collection) SetMustRelist(ctx context.Context, reason string) error {
	err := c.core.MarkMustRelist(ctx, reason)
	if err == nil {
		err = c.store.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("mark %s for a relist: %w", c.core.ID, err)
	}
	return nil
}

// Indexer returns the collection as a cache.Indexer of client-go.
func (c *Collection) Indexer() *indexer.Indexer { return indexer.New(c.core) }

// Apply implements Interface.
func (c *Collection) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	return c.core.Apply(ctx, b)
}

// BeginReplace implements Interface.
func (c *Collection) BeginReplace(ctx context.Context, o ReplaceOptions) (Replacement, error) {
	r, err := c.core.Begin(ctx, engine.ReplaceOptions(o))
	if err != nil {
		return nil, err // not r: a nil *engine.Replacement in the interface would not equal nil
	}
	return r, nil
}

// Indexers returns the index functions. The map is the caller's.
func (c *Collection) Indexers() cache.Indexers { return c.core.Indexers() }

// BuildIndexes begins to build the indexes that are not ready, all in one pass in the background. Only look-ups in
// these indexes wait for the build. Without BuildIndexes, the first write or the first of these look-ups begins it.
func (c *Collection) BuildIndexes() { c.core.BuildIndexes() }

// AddIndexers adds index functions; see Interface. As in client-go, it adds none of them if one of the names is taken.
func (c *Collection) AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error {
	return c.core.AddIndexers(ctx, indexers, versions)
}

// Compression says how the objects of a collection are compressed in the file. It may change at each opening: stored
// records stay readable until their objects change, or a relist with ReplaceOptions.Rewrite rewrites them.
type Compression string

// The ways to compress objects.
const (
	// NoCompression stores objects as the codec encodes them.
	NoCompression Compression = ""
	// Zstd compresses each object with a dictionary made of parts of the collection's objects, once it has 256 KiB of
	// them. Use it if the disk is small or wears out, or the page cache is small. For 100,000 pods that differ (protobuf)
	// the file has a quarter of the size and an update writes two fifths of the bytes. In CPU time a Get costs 1.3 times
	// as much, Iterate 1.3 to 1.7, a commit 1.2 to 1.5, a first list 1.0 to 1.3, and Select 5 to 6 times as much for
	// objects that are neither in memory nor selected. It takes 1.7 MB of memory for a collection that is written.
	// docs/adr/0007 has the figures and the command:
	//
	//	go test -run '^$' -bench 'BenchmarkCompression$' -benchtime 1s ./store
	Zstd Compression = "zstd"
)

func (c Compression) validate() error {
	if c != NoCompression && c != Zstd {
		return fmt.Errorf("there is no compression %q; use store.Zstd or store.NoCompression", string(c))
	}
	return nil
}

// CurrentKey returns the id of the provider's current key, under which Rekey seals; empty without Options.Encryption.
func (s *Store) CurrentKey(ctx context.Context) (id string, err error) { return s.keys.CurrentKey(ctx) }

// Seals reports whether Options.Encryption seals a new collection of the resource.
func (s *Store) Seals(r schema.GroupResource) bool { return s.o.Encryption.Seals(r) }

// Sealed reports whether a collection is sealed, or will be from its next write on. Do not check the resource instead:
// a sealed collection stays sealed when Options.Encryption no longer names its resource.
func (s *Store) Sealed(info entry.Info) bool {
	return info.Sealed || s.Seals(info.Identity.GroupResource())
}

// logPlainText logs, once per collection, that the file has plain text of a collection that is now sealed.
func (c *Collection) logPlainText(ctx context.Context) error {
	if c.core.ReadOnly || !c.core.Read.Coder.Sealing() {
		return nil
	}
	info, err := c.core.Info(ctx)
	if err != nil || !info.PlainText {
		return err
	}
	if _, logged := c.store.plainLogged.LoadOrStore(c.core.Read.Name, true); !logged {
		c.store.logger().Info(
			"New records of the collection are sealed; older records stay legible in the file until it is rekeyed",
			"collection", c.core.ID.String())
	}
	return nil
}
