package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// Apply applies the batch; see Interface.
func (c *Collection) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	res, err := c.intake.Apply(ctx, b)
	if err == nil && c.store.o.atOnce {
		err = c.store.Flush(ctx)
	}
	return res, err
}

// The methods below make a Collection the back of its intake: it holds objects in the file, with a memtable over it.

func (c *Collection) encoder(set *index.Set) encoder {
	return encoder{keyFunc: c.keyFunc, codec: c.codec, compressor: c.compressor, set: set, deletes: c.cursors.Any()}
}

func (c *Collection) takesIn() error {
	switch {
	case c.readOnly:
		return ErrReadOnly
	case c.closed:
		return fmt.Errorf("the collection has been closed: %w", ErrClosed)
	}
	return c.store.commits.takesIn()
}

func (c *Collection) losses() int { return c.Losses() }

// listEnded tries again to load all objects into memory, if that has failed: the list may have replaced the objects
// that could not be read.
func (c *Collection) listEnded() { c.reload() }

// put puts the writes, and the Info after them, into the memtable, and applies them to the objects in memory.
func (c *Collection) put(last []*memtable.Write, info entry.Info, settles *settled) {
	c.store.commits.add(c, c.memtable.Put(last, func(before covers, _ bool) covers {
		now := covers{info, settles}
		if settles == nil {
			now.settled = before.settled
		}
		return now
	}, func() {
		c.bounded.Apply(last, c.codec)
		c.resident.Load().Apply(last)
	}))
}

// beforeBatch returns the old states of the keys; see back. It reads from the file only states that are not in memory.
func (c *Collection) beforeBatch(
	ctx context.Context, writes []*memtable.Write,
) (keys map[string]*pending, info entry.Info, err error) {
	now, dirty := c.memtable.Current()
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
	if len(missing) == 0 && dirty {
		return keys, info.Clone(), ctx.Err()
	}
	err = c.view(ctx, func(b *bolt.Bucket) error {
		if !dirty {
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
	return keys, info.Clone(), err
}

// remembers sets p to the state of key if that can be told from memory, and reports whether it can.
func (c *Collection) remembers(key string, p *pending) bool {
	if r := c.inMemory(); r != nil {
		p.obj = r.State(key).Object()
		p.found = p.obj != nil
		return true
	}
	if over := c.memtable.Get(key); over != nil {
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

func (c *Collection) look(ctx context.Context, fn func(h held) error) error {
	return c.viewOver(ctx, nil, func(b *bolt.Bucket, over *captured) error {
		objects, err := c.objects(b)
		if err != nil {
			return err
		}
		return fn(&fileHeld{c: c, bucket: b, objects: objects, over: over})
	})
}
