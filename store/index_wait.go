package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// indexing is what is known of the build of a collection's indexes, for look-ups that wait for it. The zero value is
// ready.
type indexing struct {
	mu      sync.Mutex
	wanted  []string      // names of the indexes that are to be built; guarded by mu
	running bool          // a goroutine builds them; guarded by mu
	failure error         // of the last attempt, until the next one begins; guarded by mu
	changed chan struct{} // closed when look-ups that wait have to look again; nil if none waits; guarded by mu
}

// want notes which indexes are not ready. It reports whether a goroutine has to be started that builds them.
func (i *indexing) want(names []string) (start bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = names
	if i.running || len(names) == 0 {
		return false
	}
	i.running, i.failure = true, nil
	return true
}

// next returns the indexes that are to be built, as an attempt begins. If there are none, nothing runs any more.
func (i *indexing) next(ready map[string]bool) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = slices.DeleteFunc(slices.Clone(i.wanted), func(name string) bool { return ready[name] })
	i.running, i.failure = len(i.wanted) > 0, nil
	return i.wanted
}

// failed notes why an attempt has failed, and whether there will be another.
func (i *indexing) failed(err error, again bool) {
	i.mu.Lock()
	i.failure, i.running = err, again
	i.mu.Unlock()
	i.wake()
}

// wake has look-ups that wait look again.
func (i *indexing) wake() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.changed != nil {
		close(i.changed)
		i.changed = nil
	}
}

// changes returns a channel that the next wake closes.
func (i *indexing) changes() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.changed == nil {
		i.changed = make(chan struct{})
	}
	return i.changed
}

func (i *indexing) err() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.failure
}

// putSet puts a set of index functions in the place of the one before.
func (c *Collection) putSet(set *indexSet) {
	c.set.Store(set)
	c.indexing.wake()
}

// awaitIndex waits until look-ups in the index can be answered, and returns what answers them: the objects in memory,
// or the file, in which the index is ready then. An error says why neither will do so soon.
func (c *Collection) awaitIndex(ctx context.Context, index string) (indexReader, error) {
	var changed, filled <-chan struct{}
	for waits := false; ; waits = true {
		set := c.set.Load()
		if _, err := set.find(index); err != nil { // before the objects: those of a later filling have the index
			return nil, err
		}
		if r := c.inMemory(); r != nil {
			return r, nil
		}
		if set.ready[index] {
			return fileIndexes{view: c.lookUp, decoded: c.bounded}, nil
		}
		if waits {
			if err := c.awaitChange(ctx, index, changed, filled); err != nil {
				return nil, err
			}
		}
		changed, filled = c.indexing.changes(), c.filling()
	}
}

// awaitChange waits for one of the two, and not for a disk that hangs; filled is nil if all objects will not be in memory
// soon.
func (c *Collection) awaitChange(ctx context.Context, index string, changed, filled <-chan struct{}) error {
	if err := c.indexing.err(); err != nil && filled == nil {
		return fmt.Errorf("index %q of %s is not built: %w", index, c.id, err)
	}
	if c.readOnly {
		return fmt.Errorf("index %q of %s is not built, and a store that is open for reading builds none: open it for "+
			"writing once, with a version of the function (CollectionOptions.IndexVersions), or use Select: %w", index, c.id,
			ErrReadOnly)
	}
	select {
	case <-changed:
		return nil
	case <-filled:
		return nil
	case <-time.After(slowAfter):
		if err := c.store.slowErr(); err != nil {
			return fmt.Errorf("index %q of %s is not built: %w", index, c.id, err)
		}
		return nil
	case <-c.store.Closing():
		return fmt.Errorf("index %q of %s is not built: %w", index, c.id, ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("wait until index %q of %s is built: %w", index, c.id, ctx.Err())
	}
}
