package engine

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// maxFailures is the maximum number of objects for which failures keeps errors.
const maxFailures = 1000

// failures holds the stored objects that an index lacks because its function has failed for them. All changed copies of
// an IndexSet share one failures.
type failures struct {
	some atomic.Bool // some is false without failures, so that writes need no lock.

	mu   sync.Mutex
	of   map[string]map[string]error // of has the errors by key and index name, up to maxFailures; guarded by mu.
	more error                       // more is the error of one object beyond maxFailures; guarded by mu.
}

// set stores err, the result of the named index's function for a stored object. A nil err removes an earlier failure.
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

func (f *failures) drop(key string) {
	if !f.some.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, key)
	f.some.Store(len(f.of) > 0 || f.more != nil)
}

func (f *failures) dropMore() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.more = nil
	f.some.Store(len(f.of) > 0)
}

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
