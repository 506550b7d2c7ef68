package store

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
)

// allResident is the decoded objects of a collection whose Residency is All. Until it is filled from the file, reads go
// there; what is written meanwhile goes to both.
//
// Its table is changed by who holds the collection's mu or front, and is ready by one who holds both: so no read
// from the file is followed by an older one from here.
type allResident struct {
	residents
	// touched are the keys that were written since the filling began: what the file says of them is old. nil once it is
	// over. Guarded by mu.
	touched map[string]struct{}
	failure error // why nothing is taken in any more; guarded by mu

	ready atomic.Bool
	// read is closed when all has been read, and a write that goes to the disk keeps reads from using it.
	read chan struct{}
	// ended is closed when the filling has ended, well or not.
	ended chan struct{}
	err   error // why not; set before ended is closed
	// replaced is closed when another takes its place.
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

// apply takes in writes that readers of the file see already, or are about to.
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

// startFilling makes the collection resident anew. It is called when the collection is opened, when a rebuild of the
// file may have lost objects of it, and when a list has replaced objects that could not be read.
func (c *Collection) startFilling() { c.fillInBackground(c.beginFilling()) }

// beginFilling puts nothing in the place of the objects in memory, so that reads go to the file.
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
	c.builds.start(c.store, "read the objects of "+c.id.String(), func(ctx context.Context) {
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

// hide has reads by key look where the others do: another is about to take the place of r.
func (r *allResident) hide() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = false
	r.in.hot.Store(nil)
}

// fail lets go of what has been filled in.
func (r *allResident) fail(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.touched, r.table = why, nil, resident.NewTable()
}

// fill reads every object that has not been written since.
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

// decodeUntouched decodes the records one by one. One that cannot be decoded does no harm if its key has been written
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

// fillIn puts a page in place. set is as of before it was read: of the indexes that were ready then the records have
// the terms. If index functions have been added meanwhile, all terms are computed.
func (c *Collection) fillIn(r *allResident, set *indexSet, records []rawRecord, objs []runtime.Object) error {
	states := make([]*resident.State, len(records))
	for i, record := range records {
		states[i] = &resident.State{Obj: objs[i], UID: record.UID, RV: record.RV,
			Terms: set.residentTerms(record.Terms, objs[i])}
	}
	for {
		done, err := c.tryFillIn(r, set, records, states)
		if done || err != nil {
			return err
		}
		set = c.set.Load()
		for _, s := range states {
			s.Terms = set.workingTerms(s.Obj)
		}
	}
}

func (c *Collection) tryFillIn(
	r *allResident, set *indexSet, records []rawRecord, states []*resident.State,
) (done bool, err error) {
	c.front.Lock()
	defer c.front.Unlock()
	if c.set.Load().generation != set.generation {
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

// open lets reads use r, unless another has taken its place. An error is why they cannot.
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
	r.touched = nil
	r.table.ByKey.Settle()
	r.ready.Store(true)
	r.showLocked()
	return nil
}

// awaitFilled waits until the objects are in memory, or cannot be. It waits for no commit: when all has been read,
// reads of the file will do.
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

// filling returns a channel that is closed when the objects are in memory, or will not be; nil if that is over.
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

// WaitResident waits until the objects of a collection whose Residency is All are in memory, or ctx ends. An error says
// why they cannot be: reads decode them from the file then, until a list has replaced what cannot be read. Where the
// file is damaged it waits for Rebuild. With another Residency it returns at once.
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

// forgetResidents lets reads go to the file: something that is in memory may have been lost there.
func (c *Collection) forgetResidents() {
	if c.resident.Load() != nil {
		c.startFilling()
	}
	if c.bounded != nil {
		c.bounded.Clear()
	}
}

// refill tries again to bring all objects to memory, where that has failed.
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
