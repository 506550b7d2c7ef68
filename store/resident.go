package store

import (
	"context"
	"errors"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
)

// allResident holds the decoded objects of a collection whose Residency is All. Until it is filled from the file, reads
// use the file, and writes go to both.
//
// A goroutine that changes its table holds the collection's mu or front; the one that sets ready holds both. So no read
// from the file is followed by a read of an older state from here.
type allResident struct {
	residents
	// touched has the keys that were written since the filling began, whose records in the file may be old. nil once the
	// filling is over. Guarded by mu.
	touched map[string]struct{}
	failure error // error of the filling; once it is set no writes are applied; guarded by mu

	ready atomic.Bool // true once reads use the table
	// read is closed when all records have been read, but ready has to wait for a write that goes to the disk.
	read chan struct{}
	// ended is closed when the filling has ended, successfully or not.
	ended chan struct{}
	err   error // error of the filling, nil if it was cancelled; set before ended is closed
	// replaced is closed when another allResident takes its place.
	replaced chan struct{}
}

func newResident(in *intake) *allResident {
	r := &allResident{residents: residents{in: in, table: resident.NewTable()}, touched: map[string]struct{}{},
		read: make(chan struct{}), ended: make(chan struct{}), replaced: make(chan struct{})}
	r.table.ByKey.Fill()
	return r
}

// inMemory returns the resident objects if reads are to use them, or nil.
func (c *Collection) inMemory() *allResident {
	if r := c.resident.Load(); r != nil && r.ready.Load() {
		return r
	}
	return nil
}

// apply applies writes that readers of the file see already, or are about to see. It does nothing if r is nil.
func (r *allResident) apply(last []*memtable.Write) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return
	}
	if r.touched != nil {
		for _, x := range last {
			r.touched[x.Key] = struct{}{}
		}
	}
	r.applyLocked(last)
}

// startFilling starts to read all objects into memory anew. It is called when the collection is opened, when a rebuild
// may have lost objects of it, and when a list has replaced objects that could not be read.
func (c *Collection) startFilling() { c.fillInBackground(c.beginFilling()) }

// beginFilling replaces the objects in memory by an empty allResident, so that reads use the file.
func (c *Collection) beginFilling() *allResident {
	c.front.Lock()
	defer c.front.Unlock()
	r := newResident(&c.intake)
	old := c.resident.Load()
	if old != nil {
		old.hide()
	}
	c.resident.Store(r)
	if old != nil {
		close(old.replaced)
	}
	r.apply(c.overlay.All())
	return r
}

// fillInBackground fills r from the file.
func (c *Collection) fillInBackground(r *allResident) {
	c.workers.start(c.store, "read the objects of "+c.id.String(), func(ctx context.Context) {
		defer close(r.ended)
		if ctx.Err() != nil {
			return
		}
		err := c.fill(ctx, r)
		if err == nil {
			return
		}
		r.fail(err)
		if ctx.Err() == nil && !errors.Is(err, ErrClosed) {
			r.err = err
			c.store.logger().Error(err, "Objects are not kept in memory until a list has been stored; reads decode them",
				"collection", c.id.String())
		}
	})
}

// hide makes reads by key stop using r, since another allResident is about to take its place.
func (r *allResident) hide() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = false
	r.in.hot.Store(nil)
}

// fail ends the filling with an error and drops the objects.
func (r *allResident) fail(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.touched, r.table = why, nil, resident.NewTable()
}

// fill reads every object that has not been written since the filling began.
func (c *Collection) fill(ctx context.Context, r *allResident) error {
	for after, more := "", true; more; {
		var records []rawRecord
		var err error
		set := c.set.Load()
		if records, more, err = c.rawPage(ctx, after); err != nil {
			return err
		}
		if len(records) == 0 {
			break
		}
		after = records[len(records)-1].key
		objs, err := c.decodeRecords(records)
		if err != nil {
			if records, objs, err = c.decodeUntouched(r, records); err != nil {
				return err
			}
		}
		if err := c.fillIn(r, set, records, objs); err != nil {
			return err
		}
	}
	return c.open(ctx, r)
}

// decodeUntouched decodes the records one by one. It skips a record that cannot be decoded if its key has been written
// since.
func (c *Collection) decodeUntouched(
	r *allResident, all []rawRecord,
) (records []rawRecord, objs []runtime.Object, err error) {
	for _, record := range all {
		decoded, err := c.decodeRecords([]rawRecord{record})
		switch {
		case err == nil:
			records, objs = append(records, record), append(objs, decoded[0])
		case !r.isTouched(record.key):
			return nil, nil, err
		}
	}
	return records, objs, nil
}

func (r *allResident) isTouched(key string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.touched[key]
	return ok
}

// fillIn adds a page of objects to the table. set is the index.Set from before the page was read: the records have the
// terms of the indexes that were ready then. If index functions have been added meanwhile it computes all terms.
func (c *Collection) fillIn(r *allResident, set *index.Set, records []rawRecord, objs []runtime.Object) error {
	states := make([]*resident.State, len(records))
	for i, record := range records {
		states[i] = &resident.State{Obj: objs[i], UID: record.UID, RV: record.RV,
			Terms: set.TermsOf(record.Terms, objs[i])}
	}
	for {
		done, err := c.tryFillIn(r, set, records, states)
		if done || err != nil {
			return err
		}
		set = c.set.Load()
		for _, s := range states {
			s.Terms = set.WorkingTerms(s.Obj)
		}
	}
}

func (c *Collection) tryFillIn(
	r *allResident, set *index.Set, records []rawRecord, states []*resident.State,
) (done bool, err error) {
	c.front.Lock()
	defer c.front.Unlock()
	if c.set.Load().Generation() != set.Generation() {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return false, r.failure
	}
	for i, s := range states {
		if _, newer := r.touched[records[i].key]; !newer {
			r.table.Put(records[i].key, s)
		}
	}
	return true, nil
}

// open makes reads use r, unless another allResident has taken its place. It fails if reads cannot use r.
func (c *Collection) open(ctx context.Context, r *allResident) error {
	if !c.mu.TryLock() {
		close(r.read)
		if err := c.lockWrites(ctx); err != nil {
			return err
		}
	}
	defer c.mu.Unlock()
	c.front.Lock()
	defer c.front.Unlock()
	if c.resident.Load() != r {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return r.failure
	}
	if err := c.countFilled(ctx, r); err != nil {
		return err
	}
	r.touched = nil
	r.table.ByKey.Settle()
	r.ready.Store(true)
	r.showLocked()
	return nil
}

// countFilled returns an error if r does not have as many objects as the collection's state says. The caller holds front
// and r.mu.
func (c *Collection) countFilled(ctx context.Context, r *allResident) error {
	now, unsaved := c.overlay.Current()
	return c.view(ctx, func(b *bolt.Bucket) error {
		objects := now.Objects
		if !unsaved {
			st, err := getState(b, c.name)
			if err != nil {
				return err
			}
			objects = st.Objects
		}
		return c.counted(r.table.Len(), objects)
	})
}

// awaitFilled waits until all objects have been read, or the filling has ended. It does not wait for a commit that
// keeps reads from using the memory: reads from the file are fine then. It returns the error of ctx.
func (c *Collection) awaitFilled(ctx context.Context) error {
	r := c.resident.Load()
	if r == nil {
		return ctx.Err()
	}
	select {
	case <-r.read:
	case <-r.ended:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// filling returns a channel that is closed when the filling ends; nil if none is under way.
func (c *Collection) filling() <-chan struct{} {
	r := c.resident.Load()
	if r == nil {
		return nil
	}
	select {
	case <-r.ended:
		return nil
	default:
		return r.ended
	}
}

// WaitResident waits until the objects of a collection whose Residency is All are in memory, or ctx ends. It fails if
// an object cannot be read: then reads decode from the file, until a list has replaced such objects. If the file is
// damaged it waits for Rebuild. With another Residency it returns at once.
func (c *Collection) WaitResident(ctx context.Context) error {
	for {
		r := c.resident.Load()
		if r == nil {
			return ctx.Err()
		}
		select {
		case <-r.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		if c.resident.Load() != r {
			continue
		}
		if !errors.Is(r.err, entry.ErrDamaged) && !errors.Is(r.err, ErrOutcomeUnknown) {
			return r.err
		}
		select { // a rebuild of the file has to come first
		case <-r.replaced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// forgetResidents drops the objects in memory, so that reads use the file: it may have lost some of them.
func (c *Collection) forgetResidents() {
	if c.resident.Load() != nil {
		c.startFilling()
	}
	if c.bounded != nil {
		c.bounded.Clear()
	}
}

// refill starts another filling if the last one has failed.
func (c *Collection) refill() {
	r := c.resident.Load()
	if r == nil || r.ready.Load() {
		return
	}
	select {
	case <-r.ended:
		c.startFilling()
	default:
	}
}
