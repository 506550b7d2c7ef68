package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

// page compares the items that identify returns with the collection. It holds the writes of differing items until
// Commit, or puts them into the collection at once (showing).
func (r *Replacement) page(
	ctx context.Context, identify func() (items map[string]*item, skipped []entry.Skipped),
) (entry.Result, error) {
	for {
		set := r.c.Set.Load()
		items, skipped := identify()
		keys := slices.Sorted(maps.Keys(items))
		end := r.last
		if len(keys) > 0 {
			end = max(end, keys[len(keys)-1])
		}
		if r.o.Rewrite {
			r.encode(set, items, keys) // encode decodes each object, to leave out undecodable objects.
			r.reviseDictionary(items, keys)
		} else {
			r.prepare(set, items, keys)
		}
		missing, err := r.compare(ctx, items, keys, end)
		if err != nil {
			return entry.Result{}, err
		}
		r.encode(set, items, keys)
		if err := r.findUnreadable(ctx, items, keys); err != nil {
			return entry.Result{}, err
		}
		res := entry.Result{Staged: !r.showing, Skipped: skipped}
		if r.showing {
			if res.Changes, err = r.show(ctx, set, items, keys); errors.Is(err, errIndexesChanged) {
				continue
			}
			if err != nil {
				return entry.Result{}, err
			}
		}
		maps.Copy(r.deletes, missing)
		for _, key := range keys {
			res.Skipped = append(res.Skipped, r.recordItem(items[key], set.Generation())...)
		}
		r.last = end
		return r.showIfLarge(ctx, res)
	}
}

// identify returns the objects as items, by key. Of several objects with one key, it takes the newest.
func (r *Replacement) identify(ops []entry.Op) (map[string]*item, []entry.Skipped) {
	items := make(map[string]*item, len(ops))
	var skipped []entry.Skipped
	enc := r.c.encoder(nil)
	for _, op := range ops {
		x, err := enc.identify(op)
		if l := leftOutOf(x, err); err != nil && l.Key == "" {
			r.leaveOut(l)
			if reportable(err) {
				skipped = append(skipped, entry.Skipped{Key: x.Key, Err: err})
			}
			continue
		}
		if other := items[x.Key]; other != nil && entry.NewerRV(other.RV, x.RV) {
			continue
		}
		items[x.Key] = &item{Write: x, err: err, needed: r.o.Rewrite}
	}
	return items, skipped
}

// known treats the objects that the collection holds in the referenced state as listed, and returns the other
// references as missing. It reads the identities from the records. A list that rewrites needs every payload, so all
// references are missing.
func (r *Replacement) known(
	ctx context.Context, refs []entry.ObjectRef,
) (missing []entry.ObjectRef, res entry.Result, err error) {
	if r.o.Rewrite {
		return refs, entry.Result{}, nil
	}
	items := make(map[string]*item, len(refs))
	err = r.c.look(ctx, func(h held) error {
		clear(items)
		missing = nil
		for _, ref := range refs {
			now, err := h.Get(ref.Key)
			if err != nil {
				return err
			}
			x := &Write{Key: ref.Key, UID: ref.UID, RV: ref.ResourceVersion}
			_, unreported := r.c.unreported[ref.Key]
			if unreported || now == nil || x.UID == "" || x.RV == "" || !sameVersion(x, now) {
				missing = append(missing, ref)
				continue
			}
			items[ref.Key] = &item{Write: x, held: true}
		}
		return nil
	})
	if err == nil {
		res, err = r.page(ctx, func() (map[string]*item, []entry.Skipped) { return items, nil })
	}
	return missing, res, err
}

func (r *Replacement) encode(set *IndexSet, items map[string]*item, keys []string) {
	enc := r.c.encoder(set)
	var due []*item
	var writes []*Write
	for _, key := range keys {
		it := items[key]
		if it.err == nil && !it.skip && it.needed && !it.Del && !it.filled {
			due, writes = append(due, it), append(writes, it.Write)
		}
	}
	errs := make([]error, len(writes))
	enc.decode(writes, errs)
	for n, it := range due {
		if it.err, it.filled = errs[n], true; it.err == nil {
			it.err = enc.fill(it.Write)
			it.termed = it.err == nil
		}
	}
}

// prepare computes the payloads that compare needs, and the terms of decoded objects. The terms of an undecoded object
// are not needed if its payload equals its record's: index functions of one version return the same terms for equal
// payloads (store.Interface.AddIndexers).
func (r *Replacement) prepare(set *IndexSet, items map[string]*item, keys []string) {
	enc := r.c.encoder(set)
	if enc.Codec == nil { // A collection without a codec compares the decoded objects.
		for _, it := range items {
			it.needed = !it.held
		}
		r.encode(set, items, keys)
		return
	}
	var due []*item
	for _, key := range keys {
		if it := items[key]; it.err == nil && !it.held && it.Payload == nil {
			due = append(due, it)
		}
	}
	base.Parallel(len(due), encodeCost*len(due), func(n int) { due[n].err = enc.payload(due[n].Write) })
	for _, it := range due {
		if it.err == nil {
			it.termed = enc.index(it.Write) == nil // A failed index function does not matter for an unchanged object.
			it.filled = it.termed
		}
	}
}

// encodeCost estimates the work of encoding an object, in bytes of payload; see base.Parallel.
const encodeCost = 4 << 10

// compare determines, in one transaction, which items differ from the collection, and which keys up to end are missing
// from the list. It returns the missing keys with the approximate sizes of their objects in bytes.
func (r *Replacement) compare(
	ctx context.Context, items map[string]*item, keys []string, end string,
) (missing map[string]int, err error) {
	err = r.c.look(ctx, func(h held) error {
		if missing, _, err = r.missing(h, items, end, -1); err != nil {
			return err
		}
		for _, key := range keys {
			now, err := h.Get(key)
			if err != nil {
				return err
			}
			if err := r.classify(items[key], now); err != nil {
				return err
			}
		}
		return nil
	})
	return missing, err
}

// findUnreadable sets unreadable on items that cannot be decoded, if the stored object cannot be decoded either.
func (r *Replacement) findUnreadable(ctx context.Context, items map[string]*item, keys []string) error {
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		it := items[key]
		return it.skip || it.err == nil || leftOutOf(it.Write, it.err).Reason != entry.LeftOutCodec
	})
	if len(keys) == 0 {
		return nil
	}
	return r.c.look(ctx, func(h held) error {
		for _, key := range keys {
			now, err := h.Get(key)
			if err != nil {
				return err
			}
			if now == nil {
				continue
			}
			obj, err := now.Object()
			if err != nil {
				return err
			}
			if obj != nil {
				obj, err = entry.Decoded(obj)
			}
			items[key].unreadable = obj == nil || err != nil
		}
		return nil
	})
}

// missing returns the stored keys after r.last, up to end, that are in neither items nor an event. It returns at most
// limit keys, or all if limit is negative, and the last key that it has seen.
func (r *Replacement) missing(
	h held, items map[string]*item, end string, limit int,
) (missing map[string]int, last string, err error) {
	missing = map[string]int{}
	err = h.After(r.last, func(key string, size int) bool {
		if key > end || len(missing) == limit {
			return false
		}
		last = key
		if _, known := r.events[key]; !known && items[key] == nil {
			missing[key] = size
		}
		return true
	})
	return missing, last, err
}

// recordItem adds the item to the listed objects of r, after a differing item was put into the collection if necessary.
// It returns an item that was left out as skipped, unless the caller knows that.
func (r *Replacement) recordItem(it *item, generation int) (skipped []entry.Skipped) {
	switch {
	case it.skip:
		return nil
	case it.err != nil:
		r.leaveOut(leftOutOf(it.Write, it.err))
		if reportable(it.err) {
			skipped = []entry.Skipped{{Key: it.Key, Err: it.err}}
		}
		// The key is in the list, so its object stays, except an old state that was never reported.
		if e, ok := r.events[it.Key]; !ok || !e.gone {
			delete(r.deletes, it.Key)
		}
		if _, unreported := r.c.unreported[it.Key]; unreported || it.unreadable {
			r.deletes[it.Key] = len(it.Key)
		}
		if it.unreadable {
			r.unreadable[it.Key] = true
		}
		return skipped
	}
	r.note(it.Write)
	r.typed = r.typed || it.Typed && (it.needed || r.o.Rewrite)
	delete(r.deletes, it.Key)
	r.unhold(it.Key)
	delete(r.events, it.Key) // The list has a newer state than the event.
	if it.needed && !r.showing {
		r.hold(&listed{Write: it.Write, generation: generation})
	}
	return nil
}

func (r *Replacement) hold(p *listed) {
	if p.Payload != nil {
		p.Obj = nil
	}
	r.puts[p.Key] = p
	r.bytes += p.Size()
}

func (r *Replacement) unhold(key string) {
	if p := r.puts[key]; p != nil {
		r.bytes -= p.Size()
		delete(r.puts, key)
	}
}

// show puts the items that differ into the collection, where readers see them, and returns the changes to report.
func (r *Replacement) show(
	ctx context.Context, set *IndexSet, items map[string]*item, keys []string,
) (changes []entry.Change, err error) {
	var last []*Write
	for _, key := range keys {
		if it := items[key]; !it.skip && it.err == nil && it.needed {
			last = append(last, it.Write)
			if it.change != nil {
				changes = append(changes, *it.change)
			}
		}
	}
	return changes, r.c.putList(ctx, r, set, last, nil)
}

// showIfLarge applies the held differences once they exceed Limits.Held, and sets showing for later differences.
func (r *Replacement) showIfLarge(ctx context.Context, res entry.Result) (entry.Result, error) {
	if r.showing || r.bytes <= r.c.Limits.Held {
		return res, nil
	}
	r.showing, res.Staged = true, false
	for len(r.puts) > 0 {
		keys := slices.SortedFunc(maps.Keys(r.puts), strings.Compare)
		changes, skipped, err := r.apply(ctx, nil, keys, r.interrupt)
		if err != nil {
			r.showing = false // The differences stay held, and the next page tries to show them.
			res.Staged = true
			return res, nil //nolint:nilerr // The page has been added, although its differences are not shown yet.
		}
		res.Changes, res.Skipped = append(res.Changes, changes...), append(res.Skipped, skipped...)
		for _, key := range keys {
			r.unhold(key)
		}
	}
	return res, nil
}

// reviseDictionary lets the compressor make a new dictionary from the first page of a list that rewrites every payload,
// since the dictionary will compress all payloads of the list.
func (r *Replacement) reviseDictionary(items map[string]*item, keys []string) {
	compressor := r.c.Compressor
	if compressor == nil || r.revised {
		return
	}
	r.revised = true
	payloads := make([][]byte, 0, len(keys))
	for _, key := range keys {
		if it := items[key]; it.err == nil {
			payloads = append(payloads, it.Payload)
		}
	}
	compressor.Revise(payloads)
}

// event adds an event. It replaces a held difference of the object, unless that is a newer state from the list.
func (r *Replacement) event(ctx context.Context, op entry.Op) (entry.Result, error) {
	for {
		set := r.c.Set.Load()
		enc := r.c.encoder(set)
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
		err = r.c.look(ctx, func(h held) error {
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
			err := r.c.putList(ctx, r, set, last, nil)
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
func (r *Replacement) classifyEvent(it *item, now heldObject) error {
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
