package engine

import (
	"context"
	"errors"

	"github.com/larder-dev/larder/entry"
)

// event adds an event. It replaces a held difference of the object, unless that is a newer state from the list.
func (r *Replacement) event(ctx context.Context, op entry.Op) (entry.Result, error) {
	for {
		set := r.in.Set.Load()
		enc := r.in.Back.Encoder(set)
		x, err := enc.identify(op)
		it := &item{Write: x, err: err, needed: true}
		items := map[string]*item{x.Key: it}
		r.encode(set, items, []string{x.Key})
		if it.Del && it.err == nil && enc.Deletes && it.Obj != nil {
			_ = encodeWrite(it.Write, enc.Codec) // After an error, the delete is reported with the last stored state.
		}
		if it.err != nil {
			r.leaveOut(leftOutOf(x, it.err))
			res := entry.Result{Staged: true}
			if reportable(it.err) {
				res.Skipped = []entry.Skipped{{Key: x.Key, Err: it.err}}
			}
			return res, nil
		}
		err = r.in.Back.Look(ctx, func(h Held) error {
			now, err := h.Get(x.Key)
			if err == nil {
				err = r.classifyEvent(it, now)
			}
			return err
		})
		if err != nil {
			return entry.Result{}, err
		}
		if it.skip {
			return entry.Result{Staged: true}, nil
		}
		res := entry.Result{Staged: !r.showing}
		if r.showing {
			var last []*Write
			if it.needed {
				last = []*Write{x}
			}
			err := r.in.putList(ctx, r, set, last, nil)
			if errors.Is(err, errIndexesChanged) {
				continue
			}
			if err != nil {
				return entry.Result{}, err
			}
			if it.change != nil {
				res.Changes = []entry.Change{*it.change}
			}
		}
		r.noteEvent(x, set.Generation())
		return r.showIfLarge(ctx, res)
	}
}

// classifyEvent sets skip, needed and change of an item from an event. now is the collection's current object, or nil.
func (r *Replacement) classifyEvent(it *item, now HeldObject) error {
	known := r.listedAlready(it.Key, now)
	listed := ""
	if p := r.puts[it.Key]; p != nil && !p.event {
		listed = p.RV
	} else if _, evented := r.events[it.Key]; known && !evented {
		_, listed = now.Version()
	}
	if entry.NewerRV(listed, it.RV) {
		it.skip = true
		return nil
	}
	if !r.showing {
		return nil
	}
	var err error
	it.change, it.needed, err = r.difference(it.Write, true, now)
	return err
}

// noteEvent adds an event to r, and holds its write unless showing is set.
func (r *Replacement) noteEvent(x *Write, generation int) {
	r.note(x)
	r.typed = r.typed || x.Typed && !x.Del
	r.unhold(x.Key)
	delete(r.deletes, x.Key)
	delete(r.unreadable, x.Key)
	r.events[x.Key] = watched{rv: x.RV, gone: x.Del}
	switch {
	case r.showing:
	case x.Del:
		r.deletes[x.Key] = x.Size()
	default:
		r.hold(&listed{Write: x, generation: generation, event: true})
	}
}
