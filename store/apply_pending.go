package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
)

// applyPending takes a batch into the overlay, where readers see it at once and whole. It reads the old states that
// are not in memory, and waits for no write.
func (c *Collection) applyPending(ctx context.Context, set *indexSet, e encoded, b Batch) (changes []Change, err error) {
	if err := c.pause.wait(ctx); err != nil {
		return nil, err
	}
	c.front.Lock()
	defer c.front.Unlock()
	if err := c.store.takesIn(); err != nil {
		return nil, err
	}
	switch {
	case c.closed:
		return nil, fmt.Errorf("the collection has been closed: %w", ErrClosed)
	case c.replacing != nil:
		return nil, ErrReplacing
	case set.generation != c.set.Load().generation:
		return nil, errIndexesChanged
	}
	keys, info, err := c.beforeBatch(ctx, e.writes)
	if err != nil {
		return nil, err
	}
	changes = make([]Change, 0, len(e.writes))
	for _, x := range e.writes {
		changes = append(changes, keys[x.key].change(x))
	}
	last := make([]*write, 0, len(keys))
	for _, x := range e.writes {
		if keys[x.key].last == x {
			last = append(last, x)
			info.take(x, keys[x.key].found)
			delete(c.unheard, x.key)
		}
	}
	info.excuse(changes, e.writes, b)
	info.noteBatch(last, e)
	info.advance(b)
	c.putPending(last, info, nil)
	return changes, nil
}

// putPending puts writes, and the Info after them, into the overlay, and brings them to the objects that are in memory.
// The caller has front.
func (c *Collection) putPending(last []*write, info Info, settles *settled) {
	c.store.notePending(c, c.overlay.put(last, info, settles, func() {
		c.applyBounded(last)
		c.resident.Load().apply(last)
	}))
}

// beforeBatch returns what there is under the keys of the writes, and the Info, as of the last batch.
func (c *Collection) beforeBatch(ctx context.Context, writes []*write) (keys map[string]*pending, info Info, err error) {
	info, unsaved := c.overlay.current()
	keys = make(map[string]*pending, len(writes))
	var missing []string
	for _, x := range writes {
		if keys[x.key] != nil {
			continue
		}
		p := &pending{}
		keys[x.key] = p
		if !c.remembers(x.key, p) {
			missing = append(missing, x.key)
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
	if over := c.overlay.get(key); over != nil {
		p.obj = over.object()
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
func (i *Info) take(x *write, found bool) {
	switch {
	case x.del:
		i.Newest = dropRef(i.Newest, x.key)
		if found {
			i.Objects--
		}
	default:
		i.Newest = offerRef(i.Newest, entry.ObjectRef{Key: x.key, UID: x.uid, ResourceVersion: x.rv}, newestRefs)
		if !found {
			i.Objects++
		}
	}
}
