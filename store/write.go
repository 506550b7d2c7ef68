package store

import (
	"cmp"
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Apply implements Interface.
func (c *Collection) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	res, err := c.in.Apply(ctx, b)
	if err == nil && c.store.o.atOnce {
		err = c.store.Flush(ctx)
	}
	return res, err
}

// BeginReplace implements Interface.
func (c *Collection) BeginReplace(ctx context.Context, o ReplaceOptions) (Replacement, error) {
	return beginReplace(ctx, &c.in, o)
}

// beginReplace begins a list. If that fails it returns a nil interface, not an interface with a nil
// *engine.Replacement.
func beginReplace(ctx context.Context, in *engine.Intake, o ReplaceOptions) (Replacement, error) {
	r, err := in.Begin(ctx, engine.ReplaceOptions(o))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Indexers returns the index functions. The map is the caller's.
func (c *Collection) Indexers() cache.Indexers { return c.in.Indexers() }

// back implements engine.Back with the file and the memtable of a Collection.
type back struct{ *Collection }

func (c back) Encoder(set *engine.IndexSet) engine.Encoder {
	return engine.Encoder{
		KeyFunc: c.in.KeyFunc, Codec: c.read.Codec, Set: set, Deletes: c.cursors.Any() || c.in.History != nil,
		Decodes: c.decodesAtOnce(),
	}
}

func (c back) Compressor() *crypt.Compressor { return c.compressor }

// decodesAtOnce reports whether a batch decodes its undecoded objects when it is applied, instead of on first use.
func (c back) decodesAtOnce() bool {
	return c.resident.Load() != nil || c.decodes != nil && c.decodes()
}

func (c back) CheckOpen() error {
	switch {
	case c.readOnly:
		return ErrReadOnly
	case c.closed:
		return fmt.Errorf("the collection has been closed: %w", ErrClosed)
	}
	return c.store.commits.CheckOpen()
}

// ListEnded repeats a failed load of the objects into memory: the list may have replaced the unreadable objects.
func (c back) ListEnded() { c.reload() }

func (c back) Put(last []*engine.Write, info entry.Info, ended *engine.EndedList, also func()) {
	if len(last) > 0 {
		c.BuildIndexes()
	}
	c.reportDirty(c.read.Memtable.Put(last, func(before engine.Covers, _ bool) engine.Covers {
		now := engine.Covers{Info: info, EndedList: cmp.Or(ended, before.EndedList)}
		if c.in.History != nil {
			now.Timeline, now.Oldest = c.in.History.Timeline()
		}
		return now
	}, func() {
		also()
		c.resident.Load().Apply(last)
	}))
}

// BeforeBatch returns the state of each key before a batch. It reads the file only for states that are not in memory.
func (c back) BeforeBatch(
	ctx context.Context, writes []*engine.Write,
) (keys map[string]*engine.Pending, info entry.Info, err error) {
	if keys, info, err = c.statesBefore(ctx, writes); err == nil && c.in.History != nil {
		err = c.oldEntries(ctx, keys)
	}
	return keys, info, err
}

// statesBefore returns the result of BeforeBatch without the encoded objects (engine.Pending.Entry).
func (c back) statesBefore(
	ctx context.Context, writes []*engine.Write,
) (keys map[string]*engine.Pending, info entry.Info, err error) {
	now, dirty := c.read.Memtable.Current()
	info = now.Info
	keys = make(map[string]*engine.Pending, len(writes))
	var missing []*engine.Write
	for _, x := range writes {
		if keys[x.Key] != nil {
			continue
		}
		p := &engine.Pending{}
		keys[x.Key] = p
		if !c.knownInMemory(x.Key, p) {
			missing = append(missing, x)
		}
	}
	if len(missing) == 0 && dirty {
		return keys, info.Clone(), ctx.Err()
	}
	olds := make([]engine.OldRecord, len(missing))
	err = c.read.View(ctx, func(b *bolt.Bucket) error {
		if !dirty {
			st, err := engine.GetState(b, c.read.Name)
			if err != nil {
				return err
			}
			info = st.Info
		}
		objects, err := c.read.Objects(b)
		for i := 0; err == nil && i < len(missing); i++ {
			olds[i], err = c.read.CopyOld(objects, missing[i].Key)
		}
		return err
	})
	decodes := c.decodesAtOnce()
	c.read.DecodeOld(olds, func(i int) bool {
		_, undecoded := missing[i].Obj.(*entry.Undecoded)
		return decodes || !undecoded
	})
	for i, old := range olds {
		p := keys[missing[i].Key]
		p.Found, p.UID, p.RV, p.Obj = old.Found, old.UID, old.RV, old.Obj
	}
	return keys, info.Clone(), err
}

// oldEntries sets engine.Pending.Entry from the memtable or the file, except for unreadable records.
func (c back) oldEntries(ctx context.Context, keys map[string]*engine.Pending) error {
	var missing []string
	for key, p := range keys {
		if x := c.read.Memtable.Get(key); x == nil {
			missing = append(missing, key)
		} else if !x.Del {
			p.Entry = x.Entry(c.read.Codec.Name())
		}
	}
	found, err := c.read.EntriesOf(ctx, missing)
	for i := range found {
		keys[found[i].Key].Entry = &found[i]
	}
	return err
}

// knownInMemory sets p to the state of key, and returns false if only the file has that state.
func (c *Collection) knownInMemory(key string, p *engine.Pending) bool {
	if r := c.inMemory(); r != nil {
		if s := r.State(key); s != nil {
			p.Found, p.UID, p.RV, p.Obj = true, s.UID, s.RV, s.Obj
		}
		return true
	}
	if over := c.read.Memtable.Get(key); over != nil {
		p.Obj = over.Left()
		p.Found, p.UID, p.RV = p.Obj != nil, over.UID, over.RV
		return true
	}
	return false
}

func (c back) Backpressure(ctx context.Context, paced bool) error { return c.backpressure(ctx, paced) }

func (c back) Look(ctx context.Context, fn func(h engine.Held) error) error {
	return c.read.ViewMerged(ctx, nil, func(b *bolt.Bucket, over *engine.Captured) error {
		objects, err := c.read.Objects(b)
		if err != nil {
			return err
		}
		return fn(&engine.HeldFile{
			Read: &c.read, Bucket: b, Objects: objects, Over: over, Compressor: c.compressor, Object: c.storedObject,
		})
	})
}

// lockWrites locks mu, and fails if ctx ends first: a goroutine that waits for the disk may hold mu for long. Lock
// order: mu, then commits.LockFlush, then boltfile.File.TakeWriter.
func (c *Collection) lockWrites(ctx context.Context) error {
	if err := c.mu.LockContext(ctx); err != nil {
		return fmt.Errorf("wait for another write of %s: %w", c.id, err)
	}
	return nil
}

func (c *Collection) target() engine.WriterTarget {
	return engine.WriterTarget{
		Read: &c.read, Compressor: c.compressor, Cursors: &c.cursors, Tombstones: c.tombstones, Now: c.store.file.Times,
		Watched: c.in.History != nil, Recorded: c.recorded.Load(),
	}
}

func (c *Collection) update(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return c.store.file.Update(ctx, c.writing(), fn)
}

func (c *Collection) writing() boltfile.Work {
	return boltfile.Work{What: "a write of " + c.id.String()}
}

func (c *Collection) writeLocked(ctx context.Context, fn func(w *engine.Writer) error) error {
	return c.writeLockedFor(ctx, c.writing(), fn)
}

// writeLockedFor runs fn in a write transaction. Errors of other waiting writers contain what. The caller holds mu.
func (c *Collection) writeLockedFor(ctx context.Context, what boltfile.Work, fn func(w *engine.Writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.readOnly {
		return ErrReadOnly
	}
	var cursors *changelog.Snapshot
	return c.store.file.UpdateThen(ctx, what, func(tx *bolt.Tx) error {
		w, err := engine.BeginWriter(tx, c.target())
		if err != nil {
			return err
		}
		if err := fn(w); err != nil {
			return err
		}
		if cursors, err = w.Log.Settle(false); err != nil {
			return err
		}
		return w.Put()
	}, func(err error) { // UpdateThen calls this function before another writer can begin
		c.cursors.Written(cursors, err)
	})
}

// storedObject returns the object of a record: from memory if UID and resourceVersion are equal, and decoded otherwise.
func (c *Collection) storedObject(key string, s engine.StoredRecord) (runtime.Object, error) {
	if r := c.inMemory(); r != nil && s.Found {
		if now := r.State(key); now != nil && now.UID == s.UID && now.RV == s.RV {
			return now.Obj, nil
		}
	}
	return c.read.Object(key, s)
}
