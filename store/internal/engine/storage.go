package engine

import (
	"cmp"
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
)

// MarkMustRelist sets Info.MustRelist to reason. It fails with ErrReplacing while a list is open.
func (c *Collection) MarkMustRelist(ctx context.Context, reason string) error {
	c.front.Lock()
	defer c.front.Unlock()
	if err := c.checkOpen(); err != nil {
		return err
	}
	if c.replacing != nil {
		return ErrReplacing
	}
	_, info, err := c.beforeWrites(ctx, nil)
	if err != nil {
		return err
	}
	info.MustRelist = reason
	c.put(nil, info, nil, func() {})
	return nil
}

// pause blocks writers, without holding a lock, until the caller calls resume. When pause returns, no write is running.
// The caller holds indexing.
func (c *Collection) pause() (resume func()) {
	paused := make(chan struct{})
	set := func(to chan struct{}) {
		c.front.Lock()
		c.paused = to
		c.front.Unlock()
	}
	set(paused)
	return func() {
		set(nil)
		close(paused)
	}
}

// encoder returns the encoder that prepares writes. With a nil set it can only compute keys.
func (c *Collection) encoder(set *IndexSet) Encoder {
	return Encoder{
		KeyFunc: c.KeyFunc, Codec: c.Read.Codec, Set: set, Deletes: c.cursors.Any() || c.History != nil,
		Decodes: c.decodesAtOnce(),
	}
}

// decodesAtOnce reports whether a batch decodes its undecoded objects when it is applied, instead of on first use.
func (c *Collection) decodesAtOnce() bool {
	return c.resident.Load() != nil || c.Decodes != nil && c.Decodes()
}

// put makes the writes, at most one per key, and the Info visible to readers in one step. ended is not nil for the last
// writes of a list. put calls the function also before the writes are visible; in a collection with a history, readers
// are blocked meanwhile. The caller holds front.
func (c *Collection) put(last []*Write, info entry.Info, ended *EndedList, also func()) {
	if c.memory != nil {
		also()
		c.memory.put(c.resident.Load(), last, info)
		return
	}
	if len(last) > 0 {
		c.BuildIndexes()
	}
	c.Commits.Add(c, c.Read.Memtable.Put(last, func(before Covers, _ bool) Covers {
		now := Covers{Info: info, EndedList: cmp.Or(ended, before.EndedList)}
		if c.History != nil {
			now.Timeline, now.Oldest = c.History.Timeline()
		}
		return now
	}, func() {
		also()
		c.resident.Load().Apply(last)
	}))
}

// beforeBatch returns the current objects under the keys of the writes, and the Info, as of the last batch. It reads
// the file only for states that are not in memory. The caller holds front.
func (c *Collection) beforeBatch(
	ctx context.Context, writes []*Write,
) (keys map[string]*Pending, info entry.Info, err error) {
	if keys, info, err = c.statesBefore(ctx, writes); err == nil && c.History != nil {
		err = c.oldEntries(ctx, keys)
	}
	return keys, info, err
}

// statesBefore returns the result of beforeBatch without the encoded objects (Pending.Entry).
func (c *Collection) statesBefore(
	ctx context.Context, writes []*Write,
) (keys map[string]*Pending, info entry.Info, err error) {
	info, known := c.infoInMemory()
	keys = make(map[string]*Pending, len(writes))
	var missing []*Write
	for _, x := range writes {
		if keys[x.Key] != nil {
			continue
		}
		p := &Pending{}
		keys[x.Key] = p
		if !c.knownInMemory(x.Key, p) {
			missing = append(missing, x)
		}
	}
	if len(missing) == 0 && known {
		return keys, info.Clone(), ctx.Err()
	}
	olds := make([]OldRecord, len(missing))
	err = c.Read.View(ctx, func(b *bolt.Bucket) error {
		if !known {
			st, err := GetState(b, c.Read.Name)
			if err != nil {
				return err
			}
			info = st.Info
		}
		objects, err := c.Read.Objects(b)
		for i := 0; err == nil && i < len(missing); i++ {
			olds[i], err = c.Read.CopyOld(objects, missing[i].Key)
		}
		return err
	})
	decodes := c.decodesAtOnce()
	c.Read.DecodeOld(olds, func(i int) bool {
		_, undecoded := missing[i].Obj.(*entry.Undecoded)
		return decodes || !undecoded
	})
	for i, old := range olds {
		p := keys[missing[i].Key]
		p.Found, p.UID, p.RV, p.Obj = old.Found, old.UID, old.RV, old.Obj
	}
	return keys, info.Clone(), err
}

// infoInMemory returns the Info after the newest batch, and false if only the file has it.
func (c *Collection) infoInMemory() (info entry.Info, known bool) {
	if c.memory != nil {
		return c.memory.info, true
	}
	now, dirty := c.Read.Memtable.Current()
	return now.Info, dirty
}

// knownInMemory sets p to the state of key, and returns false if only the file has that state.
func (c *Collection) knownInMemory(key string, p *Pending) bool {
	if r := c.inMemory(); r != nil {
		if s := r.State(key); s != nil {
			p.Found, p.UID, p.RV, p.Obj = true, s.UID, s.RV, s.Obj
		}
		return true
	}
	if over := c.Read.Memtable.Get(key); over != nil {
		p.Obj = over.Left()
		p.Found, p.UID, p.RV = p.Obj != nil, over.UID, over.RV
		return true
	}
	return false
}

// oldEntries sets Pending.Entry from the memtable or the file, except for unreadable records.
func (c *Collection) oldEntries(ctx context.Context, keys map[string]*Pending) error {
	var missing []string
	for key, p := range keys {
		if x := c.Read.Memtable.Get(key); x == nil {
			missing = append(missing, key)
		} else if !x.Del {
			p.Entry = x.Entry(c.Read.Codec.Name())
		}
	}
	found, err := c.Read.EntriesOf(ctx, missing)
	for i := range found {
		keys[found[i].Key].Entry = &found[i]
	}
	return err
}

// look calls fn with a snapshot of the collection.
func (c *Collection) look(ctx context.Context, fn func(h held) error) error {
	if c.memory != nil {
		return c.lookInMemory(ctx, fn)
	}
	return c.Read.ViewMerged(ctx, nil, func(b *bolt.Bucket, over *Captured) error {
		objects, err := c.Read.Objects(b)
		if err != nil {
			return err
		}
		return fn(&heldFile{c: c, bucket: b, objects: objects, over: over})
	})
}

// storedObject returns the object of a record: from memory if UID and resourceVersion are equal or the record is
// damaged, and decoded otherwise.
func (c *Collection) storedObject(key string, s StoredRecord) (runtime.Object, error) {
	if r := c.inMemory(); r != nil && s.Found {
		if now := r.State(key); now != nil && (s.Objects == nil || now.UID == s.UID && now.RV == s.RV) {
			return now.Obj, nil
		}
	}
	return c.Read.Object(key, s)
}

// lockWrites locks mu, and fails if ctx ends first: a goroutine that waits for the disk may hold mu for long. Lock
// order: mu, then CommitLoop.LockFlush, then boltfile.File.TakeWriter.
func (c *Collection) lockWrites(ctx context.Context) error {
	if err := c.mu.LockContext(ctx); err != nil {
		return fmt.Errorf("wait for another write of %s: %w", c.ID, err)
	}
	return nil
}

func (c *Collection) target() WriterTarget {
	return WriterTarget{
		Read: &c.Read, Compressor: c.Compressor, Cursors: &c.cursors, Tombstones: c.Tombstones, Now: c.Read.File.Times,
		Watched: c.History != nil, Recorded: c.recorded.Load(),
	}
}

func (c *Collection) update(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return c.Read.File.Update(ctx, c.writing(), fn)
}

func (c *Collection) writing() boltfile.Work {
	return boltfile.Work{What: "a write of " + c.ID.String()}
}

func (c *Collection) writeLocked(ctx context.Context, fn func(w *Writer) error) error {
	return c.writeLockedFor(ctx, c.writing(), fn)
}

// writeLockedFor runs fn in a write transaction. Errors of other waiting writers contain what. The caller holds mu.
func (c *Collection) writeLockedFor(ctx context.Context, what boltfile.Work, fn func(w *Writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.ReadOnly {
		return boltfile.ErrReadOnly
	}
	var cursors *changelog.Snapshot
	return c.Read.File.UpdateThen(ctx, what, func(tx *bolt.Tx) error {
		w, err := BeginWriter(tx, c.target())
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
	}, func(err error) { // UpdateThen calls this function before another writer can begin.
		c.cursors.Written(cursors, err)
	})
}
