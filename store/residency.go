package store

import (
	"context"
	"errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Residency says which objects of a collection are kept decoded in memory. The file always has all objects.
type Residency uint8

// The residencies. Use All for fast reads, as in a controller that looks up objects in every reconciliation. Use None
// to save memory: in an agent on a small node, in a mirror, and in a program whose handlers receive most of the objects
// that it needs. docs/benchmarks.md compares the reads of both with those in client-go.
const (
	// All, the default, keeps every object in memory, as client-go does: reads are as fast, and share objects. After a
	// start the objects are read from the file in the background. Until that is done, reads decode.
	All Residency = iota
	// None decodes an object whenever it is read, which takes tens of microseconds. A look-up in an index decodes every
	// object that it returns. Memory does not grow with the number of objects.
	None
)

// String returns "All" or "None".
func (r Residency) String() string {
	if r == None {
		return "None"
	}
	return "All"
}

// inMemory returns the objects in memory, or nil if reads must use the file. After Store.Close these reads fail.
func (c *Collection) inMemory() *engine.Residents {
	if a := c.resident.Load(); a.IsOpen() && !c.isClosed() {
		return a
	}
	return nil
}

func (c *Collection) residents(a *engine.Residents) engine.ResidentReader {
	if a == nil {
		return engine.ResidentReader{}
	}
	return engine.ResidentReader{Table: a.ResidentTable, Set: &c.in.Set, CustomKeys: c.read.CustomKeys}
}

// startLoading reads all objects into memory anew: when the collection is opened, when a rebuild may have lost objects,
// and when a list has replaced unreadable objects.
func (c *Collection) startLoading() { c.loadInBackground(c.beginLoading()) }

// beginLoading makes a resident table of the writes in the memtable. Reads use the file until the table is opened.
func (c *Collection) beginLoading() *engine.Residents {
	c.in.Front.Lock()
	defer c.in.Front.Unlock()
	a := engine.NewResidents()
	if old := c.resident.Swap(a); old != nil {
		old.Replace()
	}
	a.Apply(c.read.Memtable.All())
	return a
}

func (c *Collection) loadInBackground(a *engine.Residents) {
	c.workers.Start("read the objects of "+c.id.String(), func(ctx context.Context) {
		err := ctx.Err()
		if err == nil {
			if err = c.read.Load(ctx, a, &c.in.Set, &c.in.Front); err == nil {
				err = c.openResident(ctx, a)
			}
			if err != nil {
				a.Fail()
			}
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			err = nil
		}
		if err != nil {
			c.store.logger().Error(err, "Objects are not kept in memory until a list has been stored; reads decode them",
				"collection", c.id.String())
		}
		a.End(err)
	})
}

// openResident makes reads use the table a, unless a newer table has replaced a. It fails if a does not have as many
// objects as the collection.
func (c *Collection) openResident(ctx context.Context, a *engine.Residents) error {
	if !c.mu.TryLock() {
		a.Read()
		if err := c.lockWrites(ctx); err != nil {
			return err
		}
	}
	defer c.mu.Unlock()
	c.in.Front.Lock()
	defer c.in.Front.Unlock()
	if c.resident.Load() != a {
		return nil
	}
	if err := c.read.CountedNow(ctx, a.Len()); err != nil {
		return err
	}
	a.Open()
	return nil
}

// WaitResident waits until the objects of a collection with the Residency All are in memory, or ctx ends. It fails if
// an object cannot be read: then reads decode from the file, until a list has replaced the unreadable objects. If the
// file is damaged it waits for Rebuild. With another Residency it returns at once.
func (c *Collection) WaitResident(ctx context.Context) error {
	for {
		a := c.resident.Load()
		if a == nil {
			return ctx.Err()
		}
		if loading := a.Loading(); loading != nil {
			select {
			case <-loading:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if c.resident.Load() != a {
			continue
		}
		if err := a.Err(); !errors.Is(err, entry.ErrDamaged) && !errors.Is(err, ErrOutcomeUnknown) {
			return err
		}
		if err := a.AwaitReplaced(ctx); err != nil { // a rebuild of the file will replace the table a
			return err
		}
	}
}

// forgetResidents loads the objects in memory anew, because the file may have lost some of them.
func (c *Collection) forgetResidents() {
	if c.resident.Load() != nil {
		c.startLoading()
	}
}

func (c *Collection) reload() {
	if a := c.resident.Load(); a != nil && !a.IsOpen() && a.Loading() == nil {
		c.startLoading()
	}
}
