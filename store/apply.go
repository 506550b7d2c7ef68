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

// lockFront takes front for writes whose terms were made with set, unless nothing can be taken in.
func (in *intake) lockFront(ctx context.Context, set *indexSet) (unlock func(), err error) {
	if err := in.pause.wait(ctx); err != nil {
		return nil, err
	}
	in.front.Lock()
	switch err = in.back.takesIn(); {
	case err != nil:
	case set.generation != in.set.Load().generation:
		err = errIndexesChanged
	default:
		return in.front.Unlock, nil
	}
	in.front.Unlock()
	return nil, err
}

// takeIn takes in what a list changes, with the Info that finish, which may be nil, makes of the one after it. It waits
// while too much waits for the disk, and for no write.
func (in *intake) takeIn(
	ctx context.Context, r *replacement, set *indexSet, last []*memtable.Write, finish func(*Info) (*settled, error),
) error {
	if err := in.back.waitRoom(ctx, false); err != nil {
		return err
	}
	unlock, err := in.lockFront(ctx, set)
	if err != nil {
		return err
	}
	defer unlock()
	found, info, err := in.beforeWrites(ctx, last)
	if err != nil {
		return err
	}
	if err := r.usable(); err != nil { // what a rebuild has lost meanwhile, its recount corrects in what is pending now
		return err
	}
	for _, x := range last {
		info.take(x, found[x.Key])
	}
	var settles *settled
	if finish != nil {
		if settles, err = finish(&info); err != nil {
			return err
		}
	}
	in.reported.Store(true)
	for _, x := range last {
		delete(in.unheard, x.Key)
	}
	in.back.put(last, info, settles)
	return nil
}

// beforeWrites returns which of the writes' keys there are, and the Info, as of now.
func (in *intake) beforeWrites(
	ctx context.Context, writes []*memtable.Write,
) (found map[string]bool, info Info, err error) {
	found = make(map[string]bool, len(writes))
	err = in.back.look(ctx, func(h held) (err error) {
		info, err = h.info()
		for _, x := range writes {
			found[x.Key] = h.has(x.Key)
		}
		return err
	})
	return found, info.clone(), err
}

// pending is what a batch makes of one key.
type pending struct {
	found bool           // there is a record, or a state in the overlay
	uid   string         // of what is in the file, whether it can be decoded or not
	obj   runtime.Object // after the ops so far; nil if there is none
	last  *memtable.Write
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
