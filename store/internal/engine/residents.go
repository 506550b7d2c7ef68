package engine

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/store/query"
)

// Residents is the ResidentTable, in memory, of a collection with a file. All objects of the file are loaded into the
// ResidentTable. Until the load is done, reads use the file, and writes go to both.
//
// Apply gets writes that readers of the file see already, or are about to see. The caller of Open blocks all writers
// meanwhile, so that a reader that has read from the file does not then read an older state from the table.
//
// A load calls PutPage for each page of the file, then Open, and in any case End. If the load fails, or the file loses
// objects, the caller makes another Residents and calls Replace on the old one.
type Residents struct {
	*ResidentTable
	// written has the keys that were written since the load began. Their records in the file may be older. It is nil after
	// the load. ResidentTable.mu guards written.
	written map[string]struct{}
	failed  bool // failed is true after a failed load; guarded by ResidentTable.mu.

	open     atomic.Bool
	read     chan struct{} // read is closed when all records have been read, while Open waits for a write to the disk.
	ended    chan struct{} // ended is closed at the end of a successful or failed load.
	err      error         // err is the error of the load, or nil; set before ended is closed.
	replaced chan struct{} // replaced is closed when a new Residents replaces this Residents.
}

// NewResidents returns an empty All whose objects are still to be loaded.
func NewResidents() *Residents {
	return &Residents{ResidentTable: NewResidentTable(), written: map[string]struct{}{},
		read: make(chan struct{}), ended: make(chan struct{}), replaced: make(chan struct{})}
}

// IsOpen reports whether reads use the table. It is false if a is nil.
func (a *Residents) IsOpen() bool { return a != nil && a.open.Load() }

// Apply applies the last write of each key. It does nothing if a is nil.
func (a *Residents) Apply(last []*Write) {
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

// Written reports whether the key was written since the load of the file into the table began.
func (a *Residents) Written(key string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	_, ok := a.written[key]
	return ok
}

// PutPage adds the objects of a page of the file. It skips keys that were written since the load began.
func (a *Residents) PutPage(keys []string, states []*ResidentObject) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, s := range states {
		if _, newer := a.written[keys[i]]; !newer {
			a.put(keys[i], s)
		}
	}
}

// Read wakes callers of AwaitRead, when all pages are in the table and Open still waits for a writer.
func (a *Residents) Read() { close(a.read) }

// Open makes readers use the table instead of the file.
func (a *Residents) Open() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written = nil
	a.open.Store(true)
}

// Fail drops all objects after a failed load. Only End may be called after Fail.
func (a *Residents) Fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed, a.written = true, nil
	a.clearLocked()
}

// End ends the load and wakes waiters. err is the result of Err; nil for a cancelled load.
func (a *Residents) End(err error) {
	a.err = err
	close(a.ended)
}

// Replace wakes the callers of AwaitReplaced, when another Residents has replaced a.
func (a *Residents) Replace() { close(a.replaced) }

// Loading returns a channel that is closed at the end of the load. It returns nil after the load, or if a is nil.
func (a *Residents) Loading() <-chan struct{} {
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

// Err returns the error of the load from the file, or nil. Call it after the load has ended.
func (a *Residents) Err() error { return a.err }

// AwaitRead waits until all pages are read, or the load or ctx has ended. It returns the error of ctx.
func (a *Residents) AwaitRead(ctx context.Context) error {
	select {
	case <-a.read:
	case <-a.ended:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// AwaitReplaced waits until a new Residents has replaced a as the collection's table, or ctx ends.
func (a *Residents) AwaitReplaced(ctx context.Context) error {
	select {
	case <-a.replaced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ResidentReader reads the decoded objects of a collection in memory. Each call sees one snapshot of the objects.
type ResidentReader struct {
	Table *ResidentTable
	// CustomKeys is true if keys may have another form than namespace/name.
	CustomKeys bool
}

// Keys returns every key, sorted.
func (r ResidentReader) Keys(ctx context.Context) ([]string, error) { return r.Table.Keys(), ctx.Err() }

// List returns every object, in key order.
func (r ResidentReader) List(ctx context.Context) ([]runtime.Object, error) {
	return r.Table.List(), ctx.Err()
}

// Page returns the first objects whose keys follow after, in key order, at most PageObjects of them.
func (r ResidentReader) Page(_ context.Context, after string) (p Page) {
	p.Keys, p.Objs, p.More = r.Table.Page(after, PageObjects)
	if p.More {
		p.Last = p.Keys[len(p.Keys)-1]
	}
	return p
}

// Select returns the objects that q selects, in key order; see store.Interface.
func (r ResidentReader) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	objs := []runtime.Object{}
	err := r.Each(ctx, q, func(_ string, obj runtime.Object) error {
		objs = append(objs, obj)
		return nil
	})
	return objs, err
}

// Each calls fn for each object that q selects, in key order; see store.Interface. All objects are from one snapshot:
// Each copies the list first, which is cheap because objects are shared.
func (r ResidentReader) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	match := q.Matcher(!r.CustomKeys)
	keys, objs := r.Table.Between(q.After, match.Prefix)
	n := 0
	for i, key := range keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		ok, err := match.Object(objs[i])
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := fn(key, objs[i]); err != nil {
			return err
		}
		if n++; n == q.Limit {
			break
		}
	}
	return ctx.Err()
}
