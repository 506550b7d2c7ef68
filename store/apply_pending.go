package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// applyPending takes a batch into the overlay, where readers see it at once and whole. It reads the old states that
// are not in memory, and waits for no write.
func (c *Collection) applyPending(
	ctx context.Context, set *indexSet, e encoded, b Batch,
) (changes []Change, err error) {
	unlock, err := c.lockFront(ctx, set)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c.replacing != nil {
		return nil, ErrReplacing
	}
	keys, info, err := c.beforeBatch(ctx, e.writes)
	if err != nil {
		return nil, err
	}
	changes = make([]Change, 0, len(e.writes))
	for _, x := range e.writes {
		changes = append(changes, keys[x.Key].change(x))
	}
	last := make([]*memtable.Write, 0, len(keys))
	for _, x := range e.writes {
		if keys[x.Key].last == x {
			last = append(last, x)
			info.take(x, keys[x.Key].found)
			delete(c.unheard, x.Key)
		}
	}
	info.excuse(changes, e.writes, b)
	info.noteBatch(last, e)
	info.advance(b)
	c.putPending(last, info, nil)
	return changes, nil
}

// lockFront takes front for writes whose terms were made with set, unless the collection takes nothing in.
func (c *Collection) lockFront(ctx context.Context, set *indexSet) (unlock func(), err error) {
	if err := c.pause.wait(ctx); err != nil {
		return nil, err
	}
	c.front.Lock()
	switch err = c.store.takesIn(); {
	case err != nil:
	case c.closed:
		err = fmt.Errorf("the collection has been closed: %w", ErrClosed)
	case set.generation != c.set.Load().generation:
		err = errIndexesChanged
	default:
		return c.front.Unlock, nil
	}
	c.front.Unlock()
	return nil, err
}

// putPending puts writes, and the Info after them, into the overlay, and brings them to the objects that are in memory.
// The caller has front.
func (c *Collection) putPending(last []*memtable.Write, info Info, settles *settled) {
	c.store.notePending(c, c.overlay.Put(last, func(before covers, _ bool) covers {
		now := covers{info, settles}
		if settles == nil {
			now.settled = before.settled
		}
		return now
	}, func() {
		c.applyBounded(last)
		c.resident.Load().apply(last)
	}))
}

// beforeBatch returns what there is under the keys of the writes, and the Info, as of the last batch.
func (c *Collection) beforeBatch(
	ctx context.Context, writes []*memtable.Write,
) (keys map[string]*pending, info Info, err error) {
	now, unsaved := c.overlay.Current()
	info = now.Info
	keys = make(map[string]*pending, len(writes))
	var missing []string
	for _, x := range writes {
		if keys[x.Key] != nil {
			continue
		}
		p := &pending{}
		keys[x.Key] = p
		if !c.remembers(x.Key, p) {
			missing = append(missing, x.Key)
		}
	}
	if len(missing) == 0 && unsaved {
		return keys, info.clone(), ctx.Err()
	}
	err = c.view(ctx, func(b *bolt.Bucket) error {
		if !unsaved {
			st, err := getState(b, c.name)
			if err != nil {
				return err
			}
			info = st.Info
		}
		objects, err := c.objects(b)
		if err != nil {
			return err
		}
		for _, key := range missing {
			old, err := c.stored(objects, key)
			if err != nil {
				return err
			}
			keys[key].found, keys[key].uid = old.found, old.UID
			if keys[key].obj, err = c.before(key, old); err != nil {
				return err
			}
		}
		return nil
	})
	return keys, info.clone(), err
}

// remembers sets what is in memory of key, if that is known.
func (c *Collection) remembers(key string, p *pending) bool {
	if r := c.inMemory(); r != nil {
		p.obj = r.table.Get(key)
		p.found = p.obj != nil
		return true
	}
	if over := c.overlay.Get(key); over != nil {
		p.obj = over.Object()
		p.found = p.obj != nil
		return true
	}
	if c.bounded != nil {
		p.obj = c.bounded.Get(key)
		p.found = p.obj != nil
	}
	return p.found
}

// clone returns the Info with slices of its own.
func (i Info) clone() Info {
	i.Newest = append([]entry.ObjectRef(nil), i.Newest...)
	return i
}

// take counts what x does to a key that was found, or not.
func (i *Info) take(x *memtable.Write, found bool) {
	switch {
	case x.Del:
		i.Newest = dropRef(i.Newest, x.Key)
		if found {
			i.Objects--
		}
	default:
		i.Newest = offerRef(i.Newest, entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV}, newestRefs)
		if !found {
			i.Objects++
		}
	}
}

// takeIn puts writes into the memtable, where readers see all of them at once, with the Info that finish, which may be
// nil, makes of the one after them. It waits while too much is pending, and for no disk.
func (c *Collection) takeIn(
	ctx context.Context, r *replacement, set *indexSet, last []*memtable.Write, finish func(*Info) (*settled, error),
) error {
	if err := c.waitRoom(ctx, false); err != nil {
		return err
	}
	unlock, err := c.lockFront(ctx, set)
	if err != nil {
		return err
	}
	defer unlock()
	keys, info, err := c.beforeWrites(ctx, last)
	if err != nil {
		return err
	}
	if err := r.usable(); err != nil { // what a rebuild has lost meanwhile, its recount corrects in what is pending now
		return err
	}
	for _, x := range last {
		info.take(x, keys[x.Key])
	}
	var settles *settled
	if finish != nil {
		if settles, err = finish(&info); err != nil {
			return err
		}
	}
	c.reported.Store(true)
	for _, x := range last {
		delete(c.unheard, x.Key)
	}
	c.putPending(last, info, settles)
	return nil
}

// beforeWrites returns which of the writes' keys there are, and the Info, as of now.
func (c *Collection) beforeWrites(
	ctx context.Context, writes []*memtable.Write,
) (found map[string]bool, info Info, err error) {
	found = make(map[string]bool, len(writes))
	err = c.viewOver(ctx, nil, func(b *bolt.Bucket, over *captured) error {
		if info = over.Info.Info; !over.Unsaved {
			st, err := getState(b, c.name)
			if err != nil {
				return err
			}
			info = st.Info
		}
		objects, err := c.objects(b)
		if err != nil {
			return err
		}
		for _, x := range writes {
			if old := over.Get(x.Key); old != nil {
				found[x.Key] = !old.Del
			} else {
				found[x.Key] = objects.Get([]byte(x.Key)) != nil
			}
		}
		return nil
	})
	return found, info.clone(), err
}
