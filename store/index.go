package store

import (
	"context"
	"fmt"
	"reflect"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
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
