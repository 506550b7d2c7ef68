package store

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Apply takes in the batch; see Interface.
//
// Ops are applied in order and without regard to resourceVersions, as
// client-go does. Several ops of one key yield a Change each, and one record.
// A delete of a key that is not there yields a Change without Old. An op that
// is skipped leaves what is stored under its key as it is: a stale object does
// less harm than one that seems to be gone.
func (c *Collection) Apply(ctx context.Context, b Batch) (Result, error) {
	if c.store.o.commitsLate() {
		if err := c.waitRoom(ctx, !b.Unpaced); err != nil {
			return Result{}, fmt.Errorf("apply %d changes to %s: %w", len(b.Ops), c.id, err)
		}
	}
	for {
		set := c.set.Load()
		e := c.encoder(set).encode(b.Ops)
		changes, err := c.applyEncoded(ctx, set, e, b)
		switch {
		case err == nil:
			c.reported.Store(true)
			return Result{Changes: changes, Skipped: e.skipped}, nil
		case !errors.Is(err, errIndexesChanged):
			return Result{}, fmt.Errorf("apply %d changes to %s: %w", len(b.Ops), c.id, err)
		}
	}
}

// applyEncoded takes the batch into the overlay, or commits it if nothing may wait.
func (c *Collection) applyEncoded(ctx context.Context, set *indexSet, e encoded, b Batch) (changes []Change, err error) {
	if c.store.o.commitsLate() && !c.readOnly {
		changes, taken, err := c.applyPending(ctx, set, e, b)
		if taken || err != nil {
			return changes, err
		}
		if err := c.afterClose(ctx); err != nil {
			return nil, err
		}
	}
	c.packer.pack(e.writes)
	var last []*write
	err = c.write(ctx, set, func(w *writer) (_ []*write, err error) {
		if changes, last, err = w.apply(e.writes); err != nil {
			return nil, err
		}
		w.state.excuse(changes, e.writes, b)
		w.state.noteBatch(last, e)
		w.state.advance(b)
		return last, nil
	})
	return changes, err
}

func (c *Collection) encoder(set *indexSet) encoder {
	return encoder{keyFunc: c.keyFunc, codec: c.codec, set: set, deletes: c.places.any()}
}

// pending is what a batch makes of one key.
type pending struct {
	found bool           // there is a record, or a state in the overlay
	old   stored         // in the file
	obj   runtime.Object // after the ops so far; nil if there is none
	last  *write
}

// apply does the writes in order. It returns the last of each key too.
func (w *writer) apply(writes []*write) (_ []Change, last []*write, _ error) {
	changes := make([]Change, 0, len(writes))
	keys := make(map[string]*pending, len(writes))
	for _, x := range writes {
		p := keys[x.key]
		if p == nil {
			old, err := w.get(x.key)
			if err != nil {
				return nil, nil, err
			}
			p = &pending{found: old.found, old: old}
			if p.obj, err = w.c.before(x.key, old); err != nil {
				return nil, nil, err
			}
			keys[x.key] = p
		}
		changes = append(changes, p.change(x))
	}
	for _, x := range writes {
		if keys[x.key].last != x {
			continue
		}
		if err := w.replace(x, keys[x.key].old); err != nil {
			return nil, nil, err
		}
		last = append(last, x)
	}
	return changes, last, nil
}

// replace puts x in the place of what the file has under its key.
func (w *writer) replace(x *write, old stored) (err error) {
	if x.del {
		err = w.remove(x.key, old, x)
	} else {
		err = w.put(x, old)
	}
	if err != nil {
		return fmt.Errorf("object %q: %w", x.key, err)
	}
	return nil
}

// change says what x does to p, and does it.
func (p *pending) change(x *write) Change {
	ch := Change{Type: cache.Updated, Key: x.key, Old: p.obj, New: x.obj, Contradicts: p.contradicts(x)}
	if p.last != nil {
		x.follow(p.last)
	}
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
