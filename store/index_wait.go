package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// indexing is the progress of the build of a collection's indexes, for look-ups that wait for it. The zero value is
// ready to use.
type indexing struct {
	mu      sync.Mutex
	wanted  []string      // names of the indexes that are to be built; guarded by mu
	running bool          // true while a goroutine builds indexes; guarded by mu
	failure error         // error of the last attempt, until the next attempt begins; guarded by mu
	changed chan struct{} // closed by wake; nil if no look-up waits; guarded by mu
}

// want sets the indexes that are to be built. It returns true if the caller has to start a goroutine that builds them.
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

// next begins an attempt and returns the indexes to build. If there are none, the build has ended.
func (i *indexing) next(ready map[string]bool) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = slices.DeleteFunc(slices.Clone(i.wanted), func(name string) bool { return ready[name] })
	i.running, i.failure = len(i.wanted) > 0, nil
	return i.wanted
}

// failed ends an attempt with an error; again says whether there will be another attempt.
func (i *indexing) failed(err error, again bool) {
	i.mu.Lock()
	i.failure, i.running = err, again
	i.mu.Unlock()
	i.wake()
}

// wake makes waiting look-ups check again.
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

// putSet replaces the index functions and wakes look-ups that wait.
func (c *Collection) putSet(set *indexSet) {
	c.set.Store(set)
	c.indexing.wake()
}

// awaitIndex waits until look-ups in the index can be answered. It returns the objects in memory, or else the file, in
// which the index is then ready. It fails if neither will be ready soon.
func (c *Collection) awaitIndex(ctx context.Context, index string) (indexReader, error) {
	var changed, filled <-chan struct{}
	for waits := false; ; waits = true {
		set := c.set.Load()
		if _, err := set.find(index); err != nil { // before inMemory: objects that are filled in later have the index
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

// awaitChange waits until changed or filled is closed. It fails if the index will not be built, or the disk hangs.
// filled is nil if no filling of the memory is under way.
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
