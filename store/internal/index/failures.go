package index

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// maxFailures is how many objects failures keeps.
const maxFailures = 1000

// failures has the stored objects that an index lacks because its function has failed for them. All copies of a Set
// share it.
type failures struct {
	some atomic.Bool // false if there are none, so that writes need no lock

	mu   sync.Mutex
	of   map[string]map[string]error // by key and name of the index, of at most maxFailures objects; guarded by mu
	more error                       // the error of an object beyond those; guarded by mu
}

// set records the result of the named index's function for an object that is stored.
func (f *failures) set(name, key string, err error) {
	if err == nil && !f.some.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		if delete(f.of[key], name); len(f.of[key]) == 0 {
			delete(f.of, key)
		}
	case f.of[key] != nil:
		f.of[key][name] = err
	case len(f.of) >= maxFailures:
		f.more = err
	default:
		if f.of == nil {
			f.of = map[string]map[string]error{}
		}
		f.of[key] = map[string]error{name: err}
	}
	f.some.Store(len(f.of) > 0 || f.more != nil)
}

// drop forgets the failures of an object.
func (f *failures) drop(key string) {
	if !f.some.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, key)
	f.some.Store(len(f.of) > 0 || f.more != nil)
}

// dropMore forgets that there are failures beyond those that are kept.
func (f *failures) dropMore() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.more = nil
	f.some.Store(len(f.of) > 0)
}

// err returns the error of one object; nil if there is none.
func (f *failures) err() error {
	if !f.some.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.of) == 0 {
		return f.more
	}
	key := slices.Min(slices.Collect(maps.Keys(f.of)))
	name := slices.Min(slices.Collect(maps.Keys(f.of[key])))
	return fmt.Errorf("object %q: %w", key, f.of[key][name])
}
