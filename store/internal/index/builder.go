package index

import (
	"slices"
	"sync"
)

// Builder builds the indexes of a collection, and tells look-ups that wait for an index how that goes. The zero value
// is ready to use.
type Builder struct {
	mu      sync.Mutex
	wanted  []string      // names of the indexes that are to be built; guarded by mu
	running bool          // true while a goroutine builds indexes; guarded by mu
	failure error         // error of the last attempt, until the next attempt begins; guarded by mu
	changed chan struct{} // closed by Wake; nil if no look-up waits; guarded by mu
}

// Want sets the indexes that are to be built. It returns true if the caller has to start a goroutine that calls Run.
func (b *Builder) Want(names []string) (start bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = names
	if b.running || len(names) == 0 {
		return false
	}
	b.running, b.failure = true, nil
	return true
}

// next begins an attempt and returns the indexes to build. If there are none, the build has ended.
func (b *Builder) next(set *Set) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = slices.DeleteFunc(slices.Clone(b.wanted), set.Ready)
	b.running, b.failure = len(b.wanted) > 0, nil
	return b.wanted
}

// Fail ends an attempt with an error; again says whether there will be another attempt.
func (b *Builder) Fail(err error, again bool) {
	b.mu.Lock()
	b.failure, b.running = err, again
	b.mu.Unlock()
	b.Wake()
}

// Err returns the error of the last attempt, until the next one begins.
func (b *Builder) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// Wake makes waiting look-ups check again. Call it when the Set has been replaced.
func (b *Builder) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Changed returns a channel that the next Wake closes. A look-up calls it before it looks whether its index is ready.
func (b *Builder) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}
