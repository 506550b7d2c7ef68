package engine

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// StartLoading reads all objects into memory anew: when the collection is opened, and when a list has replaced
// unreadable objects.
func (c *Collection) StartLoading() {
	a := c.beginLoading()
	c.Workers.Start("read the objects of "+c.ID.String(), func(ctx context.Context) {
		err := ctx.Err()
		if err == nil {
			if err = c.load(ctx, a); err == nil {
				err = c.openResident(ctx, a)
			}
			if err != nil {
				a.Fail()
			}
		}
		if ctx.Err() != nil || errors.Is(err, boltfile.ErrClosed) {
			err = nil
		}
		if err != nil {
			c.Read.File.Logger().Error(err,
				"Objects are not kept in memory until a list has been stored; reads decode them", "collection", c.ID.String())
		}
		a.End(err)
	})
}

// beginLoading makes a resident table of the writes in the memtable. Reads use the file until the table is opened.
func (c *Collection) beginLoading() *Residents {
	c.front.Lock()
	defer c.front.Unlock()
	a := NewResidents()
	if old := c.resident.Swap(a); old != nil {
		old.Replace()
	}
	a.Apply(c.Read.Memtable.All())
	return a
}

// openResident makes reads use the table a, unless a newer table has replaced a. It fails if a does not have as many
// objects as the collection.
func (c *Collection) openResident(ctx context.Context, a *Residents) error {
	if !c.mu.TryLock() {
		a.Read()
		if err := c.lockWrites(ctx); err != nil {
			return err
		}
	}
	defer c.mu.Unlock()
	c.front.Lock()
	defer c.front.Unlock()
	if c.resident.Load() != a {
		return nil
	}
	if err := c.Read.CountedNow(ctx, a.Len()); err != nil {
		return err
	}
	a.Open()
	return nil
}

// WaitResident waits until the objects are in memory; see store.Collection.
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
		if err := a.Err(); !format.IsDamagedRecord(err) || c.Read.File.Err() != nil {
			return err
		}
		if err := a.AwaitReplaced(ctx); err != nil { // A list will replace the damaged record, and the table a.
			return err
		}
	}
}

// reload repeats a failed load of the objects into memory: a list may have replaced the unreadable objects.
func (c *Collection) reload() {
	if a := c.resident.Load(); a != nil && !a.IsOpen() && a.Loading() == nil {
		c.StartLoading()
	}
}

// load reads every object of the file into the table a, except objects that were written since a was made.
func (c *Collection) load(ctx context.Context, a *Residents) error {
	for after, more := "", true; more; {
		var records []Record
		var err error
		set := c.Set.Load()
		if records, more, err = c.Read.RawPage(ctx, after); err != nil {
			return err
		}
		if len(records) == 0 {
			return nil
		}
		after = records[len(records)-1].Key
		objs, err := c.Read.DecodeRecords(records)
		if err != nil {
			if records, objs, err = c.decodeUnwritten(a, records); err != nil {
				return err
			}
		}
		c.putPage(a, set, records, objs)
	}
	return nil
}

// decodeUnwritten decodes records one by one. It skips an undecodable record whose key was written during the load.
func (c *Collection) decodeUnwritten(
	a *Residents, all []Record,
) (records []Record, objs []runtime.Object, err error) {
	for _, record := range all {
		decoded, err := c.Read.DecodeRecords([]Record{record})
		switch {
		case err == nil:
			records, objs = append(records, record), append(objs, decoded[0])
		case !a.Written(record.Key):
			return nil, nil, err
		}
	}
	return records, objs, nil
}

// putPage puts a page of objects into the table a. set is the IndexSet from before the page was read: the records have
// the terms of the indexes that were ready then. If index functions have been added since, putPage computes all terms.
func (c *Collection) putPage(a *Residents, set *IndexSet, records []Record, objs []runtime.Object) {
	keys, states := make([]string, len(records)), make([]*ResidentObject, len(records))
	for i, record := range records {
		keys[i] = record.Key
		terms := set.TermsOf(record.Terms, record.Key, objs[i])
		states[i] = &ResidentObject{Obj: objs[i], UID: record.UID, RV: record.RV, Terms: terms}
	}
	for !c.putOf(a, set, keys, states) {
		set = c.Set.Load()
		for i, s := range states {
			s.Terms = set.WorkingTerms(keys[i], s.Obj)
		}
	}
}

// putOf puts objects into the table a. It returns false if their terms, computed with set, are out of date. It holds
// front, which is also held when the index functions are replaced.
func (c *Collection) putOf(a *Residents, set *IndexSet, keys []string, states []*ResidentObject) bool {
	c.front.Lock()
	defer c.front.Unlock()
	current := c.Set.Load().Generation() == set.Generation()
	if current {
		a.PutPage(keys, states)
	}
	return current
}
