package store

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store/internal/memtable"
)

// Apply takes in the batch; see Interface.
//
// Ops are applied in order and without regard to resourceVersions, as
// client-go does. Several ops of one key yield a Change each, and one record.
// A delete of a key that is not there yields a Change without Old. An op that
// is skipped leaves what is stored under its key as it is: a stale object does
// less harm than one that seems to be gone.
func (in *intake) Apply(ctx context.Context, b Batch) (Result, error) {
	res, err := in.apply(ctx, b)
	if err != nil {
		return res, fmt.Errorf("apply %d changes to %s: %w", len(b.Ops), in.id, err)
	}
	return res, nil
}

func (in *intake) apply(ctx context.Context, b Batch) (Result, error) {
	if err := in.back.waitRoom(ctx, !b.Unpaced); err != nil {
		return Result{}, err
	}
	for {
		set := in.set.Load()
		e := in.back.encoder(set).encode(b.Ops)
		changes, err := in.applyEncoded(ctx, set, e, b)
		switch {
		case err == nil:
			in.reported.Store(true)
			return Result{Changes: changes, Skipped: e.skipped}, nil
		case !errors.Is(err, errIndexesChanged):
			return Result{}, err
		}
	}
}

// applyEncoded takes in a batch, which readers see at once and whole. It reads the old states that are not in memory,
// and waits for no write.
func (in *intake) applyEncoded(
	ctx context.Context, set *indexSet, e encoded, b Batch,
) (changes []Change, err error) {
	unlock, err := in.lockFront(ctx, set)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if in.replacing != nil {
		return nil, ErrReplacing
	}
	keys, info, err := in.back.beforeBatch(ctx, e.writes)
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
			delete(in.unheard, x.Key)
		}
	}
	info.excuse(changes, e.writes, b)
	info.noteBatch(last, e)
	info.advance(b)
	in.back.put(last, info, nil)
	return changes, nil
}

// pending is what a batch makes of one key.
type pending struct {
	found bool           // there is a record, or a state in the overlay
	uid   string         // of what is in the file, whether it can be decoded or not
	obj   runtime.Object // after the ops so far; nil if there is none
	last  *memtable.Write
}

// replace puts x in the place of what the file has under its key.
func (w *writer) replace(x *memtable.Write, old stored) (err error) {
	if x.Del {
		err = w.remove(x.Key, old, x)
	} else {
		err = w.put(x, old)
	}
	if err != nil {
		return fmt.Errorf("object %q: %w", x.Key, err)
	}
	return nil
}

// change says what x does to p, and does it.
func (p *pending) change(x *memtable.Write) Change {
	ch := Change{Type: cache.Updated, Key: x.Key, Old: p.obj, New: x.Obj, Contradicts: p.contradicts(x)}
	if p.last != nil {
		x.Follow(p.last)
	}
	p.last = x
	switch {
	case x.Del:
		ch.Type, p.obj = cache.Deleted, nil
	case p.obj == nil:
		ch.Type, p.obj = cache.Added, x.Obj
	default:
		p.obj = x.Obj
	}
	return ch
}
