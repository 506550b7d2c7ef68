package engine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

func (c *Collection) putSet(set *IndexSet) {
	c.Set.Store(set)
	c.builder.wake()
}

// indexLayout is the version of the encoding of index entries. Indexes of another version are rebuilt.
const indexLayout = "2"

// VersionsWith appends the codec's fingerprint and indexLayout to the versions of index functions. A codec of other Go
// types may decode a payload to an object with other index terms. Without a codec, no index is stored.
func VersionsWith(c codec.Codec, versions map[string]string) map[string]string {
	if c == nil {
		return versions
	}
	completed := make(map[string]string, len(versions))
	for name, version := range versions {
		if version != "" {
			completed[name] = version + " of " + c.Fingerprint() + ", layout " + indexLayout
		}
	}
	return completed
}

// claimLocked makes set the collection's index functions, and prepares the indexes in the file. The caller holds mu.
func (c *Collection) claimLocked(ctx context.Context, set *IndexSet) error {
	if c.memory != nil {
		c.Set.Store(set)
		return nil
	}
	var ready []string
	needed := false
	err := c.Read.View(ctx, func(b *bolt.Bucket) error {
		have, err := GetState(b, c.Read.Name)
		if err != nil {
			return err
		}
		want, err := GetState(b, c.Read.Name)
		ready = c.claim(&want, set)
		needed = !reflect.DeepEqual(have, want)
		return err
	})
	if err == nil && needed && !c.ReadOnly {
		err = c.update(ctx, func(tx *bolt.Tx) error {
			return UpdateState(tx, c.Read.Name, func(b *bolt.Bucket, st *CollectionState) error {
				ready = c.claim(st, set)
				return CreateBuckets(b, *st)
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
func (c *Collection) claim(st *CollectionState, set *IndexSet) (ready []string) {
	st.Info.Resource = st.Info.Resource.With(c.Resource)
	if !c.ReadOnly {
		c.markSealed(st)
	}
	return set.Claim(st.Indexes, st.Objects == 0 && !c.ReadOnly)
}

// awaitIndex waits until the index can be read. It returns the objects in memory; nil if the index must be read from
// the file. It fails if neither will be ready soon.
func (c *Collection) awaitIndex(ctx context.Context, name string) (*Residents, error) {
	var changed, loaded <-chan struct{}
	for waits := false; ; waits = true {
		if err := c.closedErr(); err != nil {
			return nil, err
		}
		set := c.Set.Load()
		if _, err := set.Find(name); err != nil { // Find precedes inMemory, since objects loaded later have the index.
			return nil, err
		}
		if r := c.inMemory(); r != nil {
			return r, nil
		}
		if set.Ready(name) {
			return nil, nil
		}
		c.BuildIndexes()
		if waits {
			if err := c.awaitChange(ctx, name, changed, loaded); err != nil {
				return nil, err
			}
		}
		changed, loaded = c.builder.nextChange(), c.resident.Load().Loading()
	}
}

// awaitChange waits until changed is closed, because an index may be ready, or loaded, because the objects may be in
// memory. It fails if the index will not be built, or the disk hangs. loaded is nil if no load is running.
func (c *Collection) awaitChange(ctx context.Context, name string, changed, loaded <-chan struct{}) error {
	notBuilt := func(err error) error { return fmt.Errorf("index %q of %s is not built: %w", name, c.ID, err) }
	if err := c.builder.err(); err != nil && loaded == nil {
		return notBuilt(err)
	}
	if c.ReadOnly {
		return fmt.Errorf("index %q of %s is not built, and a store that is open for reading builds none: open it for "+
			"writing once, with a version of the function (CollectionOptions.IndexVersions), or use Select: %w", name, c.ID,
			boltfile.ErrReadOnly)
	}
	select {
	case <-changed:
		return nil
	case <-loaded:
		return nil
	case <-time.After(boltfile.SlowAfter):
		if err := c.Read.File.SlowErr(); err != nil {
			return notBuilt(err)
		}
		return nil
	case <-c.Commits.closed:
		return notBuilt(boltfile.ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("wait until index %q of %s is built: %w", name, c.ID, ctx.Err())
	}
}

// BuildIndexes begins to build the indexes that are not ready, all in one pass in the background. Only look-ups in
// these indexes wait for the build. Without BuildIndexes, the first write or the first of these look-ups begins it.
func (c *Collection) BuildIndexes() {
	if !c.started.Swap(true) {
		c.startBuild()
	}
}

func (c *Collection) startBuild() {
	if c.ReadOnly || len(c.Set.Load().Unready()) == 0 || !c.builder.begin() {
		return
	}
	c.Workers.Start("build indexes of "+c.ID.String(), c.runBuild)
}

// AddIndexers adds index functions; see store.Interface. As in client-go, it adds none of them if one of the names is
// taken.
func (c *Collection) AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error {
	if len(indexers) == 0 {
		return nil
	}
	add := func(ctx context.Context) error {
		return c.addIndexers(ctx, indexers, VersionsWith(c.Read.Codec, versions))
	}
	var err error
	if c.memory != nil {
		err = add(ctx)
	} else {
		err = c.Workers.Do(ctx, add)
	}
	if err != nil {
		return fmt.Errorf("add indexes to %s: %w", c.ID, err)
	}
	return nil
}

// addIndexers adds index functions in these steps. Writers wait for the end of a pause, so that no function is called
// under a lock or in a transaction.
//
//  1. Commit the dirty changes, and have writers wait: all objects are in the file.
//  2. Compute the terms of the objects in memory.
//  3. Add the functions to the collection and the indexes, not ready, to the file.
//  4. Build the indexes, page by page. If BuildIndexes has not been called yet, it builds them later.
func (c *Collection) addIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error {
	if err := c.indexing.LockContext(ctx); err != nil {
		return fmt.Errorf("wait until other indexes are built: %w", err)
	}
	defer c.indexing.Unlock()
	set, err := c.Set.Load().With(indexers, versions)
	if err != nil {
		return err
	}
	if c.started.Load() { // A Flush precedes the pause of writers, because the disk may hang.
		if err := c.Commits.Flush(ctx); err != nil {
			return err
		}
	}
	resume := sync.OnceFunc(c.pause())
	defer resume()
	late := c.started.Load() && !c.ReadOnly
	if late {
		if err := c.Commits.Flush(ctx); err != nil {
			return err
		}
	}
	added, err := c.Set.Load().Only(indexers, versions)
	if err == nil {
		err = c.claimAdded(ctx, set, added)
	}
	switch {
	case err != nil:
		return err
	case late:
		if err = c.buildAdded(ctx, added.Names()); err != nil {
			resume() // Writers continue, since another write may hold mu for long; their writes have the new terms.
			c.mu.Lock()
			defer c.mu.Unlock()
			c.dropIndexesLocked(added.Names())
		}
		return err
	case c.started.Load():
		c.startBuild() // BuildIndexes was called before the functions were added, and misses their indexes.
	}
	return nil
}

// claimAdded makes set, which includes added, the collection's index functions, in memory and in the file.
func (c *Collection) claimAdded(ctx context.Context, set, added *IndexSet) error {
	for done := false; !done; { // This repeats if objects were loaded into memory while terms were computed.
		r := c.resident.Load()
		var terms MoreTerms
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
func (c *Collection) swapSet(set *IndexSet, names []string, r *Residents, terms MoreTerms) bool {
	c.front.Lock()
	defer c.front.Unlock()
	if c.resident.Load() != r || r != nil && !r.AddTerms(names, terms) {
		return false
	}
	c.Set.Store(set)
	return true
}

func (c *Collection) buildAdded(ctx context.Context, names []string) error {
	unready := slices.DeleteFunc(slices.Clone(names), c.Set.Load().Ready)
	if len(unready) == 0 {
		return nil
	}
	return c.buildNow(ctx, unready)
}

// dropIndexesLocked removes index functions that could not be added. The next commit marks their indexes in the file as
// idle. The caller holds mu.
func (c *Collection) dropIndexesLocked(names []string) { c.putSet(c.Set.Load().Without(names)) }
