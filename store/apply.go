package store

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Apply commits the batch; see Interface.
//
// Ops are applied in order and without regard to resourceVersions, as
// client-go does. Several ops of one key yield a Change each, and one record.
// A delete of a key that is not there yields a Change without Old. An op that
// is skipped leaves what is stored under its key as it is: a stale object does
// less harm than one that seems to be gone.
func (c *Collection) Apply(ctx context.Context, b Batch) (Result, error) {
	for {
		set := c.set.Load()
		e := c.encoder(set).encode(b.Ops)
		var changes []Change
		err := c.write(ctx, set, func(w *writer) (err error) {
			if changes, err = w.apply(e.writes); err != nil {
				return err
			}
			w.state.Newest = dropStale(w.state.Newest, e.stale)
			w.state.advance(b)
			return nil
		})
		switch {
		case err == nil:
			c.markReported()
			return Result{Changes: changes, Skipped: e.skipped}, nil
		case !errors.Is(err, errIndexesChanged):
			return Result{}, fmt.Errorf("apply %d changes to %s: %w", len(b.Ops), c.id, err)
		}
	}
}

// markReported notes that somebody has been told what the collection holds.
func (c *Collection) markReported() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reported = true
}

func (c *Collection) encoder(set *indexSet) encoder {
	return encoder{keyFunc: c.keyFunc, codec: c.codec, set: set}
}

// pending is what a batch makes of one key.
type pending struct {
	old  stored         // in the file
	obj  runtime.Object // after the ops so far; nil if there is none
	last *write
}

// apply does the writes in order.
func (w *writer) apply(writes []*write) ([]Change, error) {
	changes := make([]Change, 0, len(writes))
	keys := make(map[string]*pending, len(writes))
	for _, x := range writes {
		p := keys[x.key]
		if p == nil {
			old, err := w.get(x.key)
			if err != nil {
				return nil, err
			}
			p = &pending{old: old, obj: w.c.object(x.key, old)}
			keys[x.key] = p
		}
		changes = append(changes, p.change(x))
	}
	for _, x := range writes {
		if keys[x.key].last != x {
			continue
		}
		old := keys[x.key].old
		var err error
		if x.del {
			err = w.remove(x.key, old)
		} else {
			err = w.put(x, old)
		}
		if err != nil {
			return nil, fmt.Errorf("object %q: %w", x.key, err)
		}
	}
	return changes, nil
}

// change says what x does to p, and does it.
func (p *pending) change(x *write) Change {
	ch := Change{Type: cache.Updated, Key: x.key, Old: p.obj, New: x.obj}
	p.last = x
	switch {
	case x.del:
		ch.Type, p.obj = cache.Deleted, nil
	case p.obj == nil:
		ch.Type, p.obj = cache.Added, x.obj
	default:
		p.obj = x.obj
	}
	return ch
}
