package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/engine"
)

func (c *Collection) putSet(set *engine.IndexSet) {
	c.in.Set.Store(set)
	c.builder.Wake()
}

// indexLayout is the version of the encoding of index entries. Indexes of another version are rebuilt.
const indexLayout = "2"

// versionsWith appends the codec's fingerprint and indexLayout to the versions of index functions. A codec of other Go
// types may decode a payload to an object with other index terms.
func versionsWith(c codec.Codec, versions map[string]string) map[string]string {
	completed := make(map[string]string, len(versions))
	for name, version := range versions {
		if version != "" {
			completed[name] = version + " of " + c.Fingerprint() + ", layout " + indexLayout
		}
	}
	return completed
}

// claimLocked makes set the collection's index functions, and prepares the indexes in the file. The caller holds mu.
func (c *Collection) claimLocked(ctx context.Context, set *engine.IndexSet) error {
	var ready []string
	needed := false
	err := c.read.View(ctx, func(b *bolt.Bucket) error {
		have, err := engine.GetState(b, c.read.Name)
		if err != nil {
			return err
		}
		want, err := engine.GetState(b, c.read.Name)
		ready = c.claim(&want, set)
		needed = !reflect.DeepEqual(have, want)
		return err
	})
	if err == nil && needed && !c.readOnly {
		err = c.update(ctx, func(tx *bolt.Tx) error {
			return engine.UpdateState(tx, c.read.Name, func(b *bolt.Bucket, st *engine.CollectionState) error {
				ready = c.claim(st, set)
				return engine.CreateBuckets(b, *st)
			})
		})
	}
	if err != nil {
		return err
	}
	c.putSet(set.WithReady(ready...))
	return nil
}

// claim changes st, the stored state of the collection, for this process: the states of the indexes for the functions
// in set, the names of the resource, and whether records are sealed. It returns the names of the ready indexes.
func (c *Collection) claim(st *engine.CollectionState, set *engine.IndexSet) (ready []string) {
	st.Info.Resource = st.Info.Resource.With(c.resource)
	if !c.readOnly {
		c.markSealed(st)
	}
	return set.Claim(st.Indexes, st.Objects == 0 && !c.readOnly)
}

// indexReader looks up objects in indexes: in the file (engine.IndexReader), or in memory (engine.ResidentReader).
type indexReader interface {
	ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error)
	IndexKeys(ctx context.Context, index, value string) ([]string, error)
	IndexValues(ctx context.Context, index string) ([]string, error)
}

// awaitIndex waits until the index can be read, from memory or from the file. It fails if neither will be ready soon.
func (c *Collection) awaitIndex(ctx context.Context, name string) (indexReader, error) {
	var changed, loaded <-chan struct{}
	for waits := false; ; waits = true {
		if err := c.closedErr(); err != nil {
			return nil, err
		}
		set := c.in.Set.Load()
		if _, err := set.Find(name); err != nil { // Find precedes inMemory, since objects loaded later have the index
			return nil, err
		}
		if r := c.inMemory(); r != nil {
			return c.residents(r), nil
		}
		if set.Ready(name) {
			return engine.IndexReader(c.lookUp), nil
		}
		c.BuildIndexes()
		if waits {
			if err := c.awaitChange(ctx, name, changed, loaded); err != nil {
				return nil, err
			}
		}
		changed, loaded = c.builder.Changed(), c.resident.Load().Loading()
	}
}

// awaitChange waits until changed is closed, because an index may be ready, or loaded, because the objects may be in
// memory. It fails if the index will not be built, or the disk hangs. loaded is nil if no load is running.
func (c *Collection) awaitChange(ctx context.Context, name string, changed, loaded <-chan struct{}) error {
	notBuilt := func(err error) error { return fmt.Errorf("index %q of %s is not built: %w", name, c.id, err) }
	if err := c.builder.Err(); err != nil && loaded == nil {
		return notBuilt(err)
	}
	if c.readOnly {
		return fmt.Errorf("index %q of %s is not built, and a store that is open for reading builds none: open it for "+
			"writing once, with a version of the function (CollectionOptions.IndexVersions), or use Select: %w", name, c.id,
			ErrReadOnly)
	}
	select {
	case <-changed:
		return nil
	case <-loaded:
		return nil
	case <-time.After(boltfile.SlowAfter):
		if err := c.store.file.SlowErr(); err != nil {
			return notBuilt(err)
		}
		return nil
	case <-c.store.Closing():
		return notBuilt(ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("wait until index %q of %s is built: %w", name, c.id, ctx.Err())
	}
}

// lookUp calls fn in a read transaction with the ready index want.Index and the memtable's matching writes.
func (c *Collection) lookUp(ctx context.Context, want engine.Lookup, fn func(engine.IndexView) error) error {
	return c.read.ViewMerged(ctx, &want, func(b *bolt.Bucket, over *engine.Captured) error {
		v, err := c.read.IndexView(b, want.Index, c.read.Coder.Sealing(), over)
		if err != nil {
			return err
		}
		return fn(v)
	})
}

// BuildIndexes begins to build the indexes that are not ready, all in one pass in the background. Only look-ups in
// these indexes wait for the build. Without BuildIndexes, the first write or the first of these look-ups begins it.
func (c *Collection) BuildIndexes() {
	if !c.started.Swap(true) {
		c.startBuild()
	}
}

func (c *Collection) startBuild() {
	if c.readOnly || len(c.in.Set.Load().Unready()) == 0 || !c.builder.Begin() {
		return
	}
	c.workers.Start("build indexes of "+c.id.String(), func(ctx context.Context) {
		c.builder.Run(ctx, indexedRecords{c}, c.in.Indexing, c.store.logger().WithValues("collection", c.id.String()))
	})
}

// AddIndexers adds index functions; see Interface. As in client-go, it adds none of them if one of the names is taken.
func (c *Collection) AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error {
	if len(indexers) == 0 {
		return nil
	}
	err := c.workers.Do(ctx, func(ctx context.Context) error {
		return c.addIndexers(ctx, indexers, versionsWith(c.read.Codec, versions))
	})
	if err != nil {
		return fmt.Errorf("add indexes to %s: %w", c.id, err)
	}
	return nil
}

// addIndexers adds index functions in these steps. Writers wait for the end of a Pause, so that no function is called
// under a lock or in a transaction.
//
//  1. Commit the dirty changes, and have writers wait: all objects are in the file.
//  2. Compute the terms of the objects in memory.
//  3. Add the functions to the collection and the indexes, not ready, to the file.
//  4. Build the indexes, page by page. If BuildIndexes has not been called yet, it builds them later.
func (c *Collection) addIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error {
	if err := c.in.Indexing.LockContext(ctx); err != nil {
		return fmt.Errorf("wait until other indexes are built: %w", err)
	}
	defer c.in.Indexing.Unlock()
	set, err := c.in.Set.Load().With(indexers, versions)
	if err != nil {
		return err
	}
	if c.started.Load() { // a Flush precedes the Pause of writers, because the disk may hang
		if err := c.store.Flush(ctx); err != nil {
			return err
		}
	}
	resume := sync.OnceFunc(c.in.Pause())
	defer resume()
	late := c.started.Load() && !c.readOnly
	if late {
		if err := c.store.Flush(ctx); err != nil {
			return err
		}
	}
	added, err := c.in.Set.Load().Only(indexers, versions)
	if err == nil {
		err = c.claimAdded(ctx, set, added)
	}
	switch {
	case err != nil:
		return err
	case late:
		if err = c.buildAdded(ctx, added.Names()); err != nil {
			resume() // writers continue, since another write may hold mu for long; their writes have the new terms
			c.mu.Lock()
			defer c.mu.Unlock()
			c.dropIndexesLocked(added.Names())
		}
		return err
	case c.started.Load():
		c.startBuild() // BuildIndexes was called before the functions were added, and misses their indexes
	}
	return nil
}

// claimAdded makes set, which includes added, the collection's index functions, in memory and in the file.
func (c *Collection) claimAdded(ctx context.Context, set, added *engine.IndexSet) error {
	for done := false; !done; { // repeat if objects were loaded into memory while terms were computed
		r := c.resident.Load()
		var terms engine.MoreTerms
		if r != nil {
			terms = r.MoreTerms(added.WorkingTerms)
		}
		if err := c.lockWrites(ctx); err != nil {
			return err
		}
		var err error
		if done = c.swapSet(set, added.Names(), r, terms); done {
			if err = c.claimLocked(ctx, set); err != nil {
				c.dropIndexesLocked(added.Names())
			}
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// swapSet makes set the index functions for the next writes, and adds the terms of the new functions to r, the objects
// in memory. It returns false if an object lacks terms, or if r is no longer the collection's resident table.
func (c *Collection) swapSet(set *engine.IndexSet, names []string, r *engine.Residents, terms engine.MoreTerms) bool {
	c.in.Front.Lock()
	defer c.in.Front.Unlock()
	if c.resident.Load() != r || r != nil && !r.AddTerms(names, terms) {
		return false
	}
	c.in.Set.Store(set)
	return true
}

func (c *Collection) buildAdded(ctx context.Context, names []string) error {
	unready := slices.DeleteFunc(slices.Clone(names), c.in.Set.Load().Ready)
	if len(unready) == 0 {
		return nil
	}
	return engine.BuildIndexes(ctx, indexedRecords{c}, unready, c.store.logger().WithValues("collection", c.id.String()))
}

// dropIndexesLocked removes index functions that could not be added. The next commit marks their indexes in the file as
// idle. The caller holds mu.
func (c *Collection) dropIndexesLocked(names []string) { c.putSet(c.in.Set.Load().Without(names)) }

// indexedRecords implements engine.IndexedRecords, through which an engine.IndexBuilder reads and rewrites a
// collection's records.
type indexedRecords struct{ c *Collection }

var _ engine.IndexedRecords = indexedRecords{}

func (r indexedRecords) Set() *engine.IndexSet { return r.c.in.Set.Load() }

// Final reports whether a retry of the build is useless: only a rebuild of the file or another process can help.
func (r indexedRecords) Final(err error) bool {
	return errors.Is(err, entry.ErrDamaged) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrNoCollection) ||
		errors.Is(err, ErrClosed)
}

func (r indexedRecords) Page(ctx context.Context, after string) (page []engine.IndexedRecord, more bool, err error) {
	return r.c.read.IndexPage(ctx, after)
}

func (r indexedRecords) Update(ctx context.Context, names []string, records []engine.IndexedRecord) error {
	if err := r.c.lockWrites(ctx); err != nil {
		return err
	}
	defer r.c.mu.Unlock()
	return r.c.writeLocked(ctx, func(w *engine.Writer) error {
		for _, record := range records {
			if err := w.Reindex(record, names); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r indexedRecords) SetReady(ctx context.Context, names []string) error {
	if err := r.c.lockWrites(ctx); err != nil {
		return err
	}
	defer r.c.mu.Unlock()
	err := r.c.writeLocked(ctx, func(w *engine.Writer) error {
		w.Indexes.Ready(names)
		return nil
	})
	if err == nil {
		r.c.putSet(r.c.in.Set.Load().WithReady(names...))
	}
	return err
}
