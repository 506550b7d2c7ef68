package resident

import (
	"context"
	"sync/atomic"

	"github.com/larder-dev/larder/store/internal/memtable"
)

// All is the Table of a collection with a file, which all of its objects are loaded into. Until that is done reads use
// the file, and writes go to both.
//
// Apply is called with what readers of the file see already, or are about to see. Whoever calls Open keeps all writers
// away meanwhile, so no read from the file is followed by a read of an older state from here.
//
// A load calls PutPage for each page of the file, then Open, and in any case End. If it has failed, or the file has
// lost objects, another All takes its place (Replace).
type All struct {
	*Table
	// written has the keys that were written since the load began, whose records in the file may be old. nil once the
	// load is over. Guarded by Table.mu.
	written map[string]struct{}
	failed  bool // the load has failed: no writes are applied; guarded by Table.mu

	open     atomic.Bool
	read     chan struct{} // closed when all records have been read, but Open has to wait for a write to the disk
	ended    chan struct{} // closed when the load has ended, successfully or not
	err      error         // see Err; set before ended is closed
	replaced chan struct{} // closed when another All has taken its place
}

// NewAll returns a table that is being loaded.
func NewAll() *All {
	return &All{Table: NewTable(), written: map[string]struct{}{},
		read: make(chan struct{}), ended: make(chan struct{}), replaced: make(chan struct{})}
}

// IsOpen reports whether reads use the table. It is false if a is nil.
func (a *All) IsOpen() bool { return a != nil && a.open.Load() }

// Apply applies the last write of each key. It does nothing if a is nil.
func (a *All) Apply(last []*memtable.Write) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed {
		return
	}
	if a.written != nil {
		for _, x := range last {
			a.written[x.Key] = struct{}{}
		}
	}
	a.applyLocked(last)
}

// Written reports whether the key was written since the load began.
func (a *All) Written(key string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	_, ok := a.written[key]
	return ok
}

// PutPage puts in the objects of a page of the file, except for keys that were written since the load began.
func (a *All) PutPage(keys []string, states []*State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, s := range states {
		if _, newer := a.written[keys[i]]; !newer {
			a.put(keys[i], s)
		}
	}
}

// Read says that all pages are here, and that Open has to wait.
func (a *All) Read() { close(a.read) }

// Open makes reads use the table.
func (a *All) Open() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written = nil
	a.open.Store(true)
}

// Fail drops the objects, since the load has failed. After it comes only End.
func (a *All) Fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed, a.written = true, nil
	a.clearLocked()
}

// End says that the load has ended. err is what Err returns; nil if the load was cancelled.
func (a *All) End(err error) {
	a.err = err
	close(a.ended)
}

// Replace says that another table has taken its place.
func (a *All) Replace() { close(a.replaced) }

// Loading returns a channel that is closed when the load ends; nil if it has ended, or if a is nil.
func (a *All) Loading() <-chan struct{} {
	if a == nil {
		return nil
	}
	select {
	case <-a.ended:
		return nil
	default:
		return a.ended
	}
}

// Err returns the error of the load, which has ended.
func (a *All) Err() error { return a.err }

// AwaitRead waits until all pages are here, or the load has ended. It does not wait for Open. It returns the error of
// ctx.
func (a *All) AwaitRead(ctx context.Context) error {
	select {
	case <-a.read:
	case <-a.ended:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// AwaitReplaced waits until another table has taken its place.
func (a *All) AwaitReplaced(ctx context.Context) error {
	select {
	case <-a.replaced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
