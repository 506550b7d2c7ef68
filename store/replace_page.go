package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// item is an object of a page, or of an event, on its way into the collection.
type item struct {
	*memtable.Write
	err    error   // why it is left out
	skip   bool    // the collection holds, or will, what is as new
	needed bool    // the collection holds another state, or none
	change *Change // that it makes; nil if nobody need be told, or if it is held
}

// current is what a collection holds under a key, in the memtable or in the file.
type current struct {
	stored                 // of the file; dies with the transaction
	x      *memtable.Write // pending; nil if what is in the file is what there is
	uid    string
	rv     string
}

func (c *Collection) current(objects *bolt.Bucket, over *captured, key string) (now current, err error) {
	if now.x = over.Get(key); now.x != nil {
		now.found, now.uid, now.rv = !now.x.Del, now.x.UID, now.x.RV
		return now, nil
	}
	now.stored, err = c.stored(objects, key)
	now.uid, now.rv = now.UID, now.RV
	return now, err
}

// objectOf returns the object of what is held, decoded already if it is in memory; nil if there is none.
func (c *Collection) objectOf(key string, now current) (runtime.Object, error) {
	if now.x != nil {
		return now.x.Object(), nil
	}
	return c.before(key, now.stored)
}

// page takes in items: those that differ are held, or shown.
func (r *replacement) page(ctx context.Context, ops []Op) (Result, error) {
	for {
		set := r.c.set.Load()
		items, skipped := r.identify(ops)
		keys := slices.Sorted(maps.Keys(items))
		end := r.last
		if len(keys) > 0 {
			end = max(end, keys[len(keys)-1])
		}
		if r.o.Rewrite { // bodies are compared, so they are all needed
			r.encode(set, items, keys)
			r.reviseDictionary(items, keys)
		}
		missing, err := r.compare(ctx, items, keys, end)
		if err != nil {
			return Result{}, err
		}
		r.encode(set, items, keys)
		res := Result{Staged: !r.showing, Skipped: skipped}
		if r.showing {
			if res.Changes, err = r.show(ctx, set, items, keys); errors.Is(err, errIndexesChanged) {
				continue
			}
			if err != nil {
				return Result{}, err
			}
		}
		maps.Copy(r.deletes, missing)
		for _, key := range keys {
			res.Skipped = append(res.Skipped, r.settle(items[key], set.generation)...)
		}
		r.last = end
		return r.showIfLarge(ctx, res)
	}
}

// identify keys the objects. Of several with one key it takes the newest.
func (r *replacement) identify(ops []Op) (map[string]*item, []Skipped) {
	items := make(map[string]*item, len(ops))
	var skipped []Skipped
	for _, op := range ops {
		x, err := r.c.encoder(nil).identify(op)
		if l := leftOutOf(x, err); err != nil && l.Key == "" {
			r.leaveOut(l)
			skipped = append(skipped, Skipped{Key: x.Key, Err: err})
			continue
		}
		if other := items[x.Key]; other != nil && entry.NewerRV(other.RV, x.RV) {
			continue
		}
		items[x.Key] = &item{Write: x, err: err, needed: r.o.Rewrite}
	}
	return items, skipped
}

// encode makes the payloads of the items that are needed, and their terms.
func (r *replacement) encode(set *indexSet, items map[string]*item, keys []string) {
	enc := r.c.encoder(set)
	for _, key := range keys {
		it := items[key]
		if it.err != nil || it.skip || !it.needed || it.Del {
			continue
		}
		if it.Payload == nil {
			it.err = enc.fill(it.Write)
		}
	}
}

// compare finds out, in one transaction, which items differ from what the collection holds, and which keys up to end
// the list lacks. It returns the latter with about how many bytes their objects take.
func (r *replacement) compare(
	ctx context.Context, items map[string]*item, keys []string, end string,
) (missing map[string]int, err error) {
	err = r.c.viewObjects(ctx, func(objects *bolt.Bucket, over *captured) error {
		if missing, _, err = r.missing(objects, over, items, end, -1); err != nil {
			return err
		}
		for _, key := range keys {
			now, err := r.c.current(objects, over, key)
			if err != nil {
				return err
			}
			if err := r.weigh(items[key], now); err != nil {
				return err
			}
		}
		return nil
	})
	return missing, err
}

// missing returns the keys beyond last and up to end that are neither among the items nor told of by an event, at most
// limit of them, and the last one that it has looked at.
func (r *replacement) missing(
	objects *bolt.Bucket, over *captured, items map[string]*item, end string, limit int,
) (missing map[string]int, last string, err error) {
	missing = map[string]int{}
	s := scanOver(objects, over, r.last)
	for key, data, x, ok := s.next(); ok && key <= end && len(missing) != limit; key, data, x, ok = s.next() {
		last = key
		if _, known := r.events[key]; known || items[key] != nil {
			continue
		}
		size := len(key) + len(data)
		if x != nil {
			size += x.PayloadSize
		}
		missing[key] = size
	}
	return missing, last, s.err()
}

// listedAlready reports whether the list has had the key, and the collection holds what it had.
func (r *replacement) listedAlready(key string, now current) bool {
	_, deleted := r.deletes[key]
	_, evented := r.events[key]
	return now.found && !deleted && r.puts[key] == nil && (key <= r.last || evented)
}

// weigh finds out what becomes of an item.
func (r *replacement) weigh(it *item, now current) (err error) {
	known := r.listedAlready(it.Key, now)
	if e, ok := r.events[it.Key]; ok && !entry.NewerRV(it.RV, e.rv) {
		it.skip = true // the event happened after the page was read
		return nil
	}
	if p := r.puts[it.Key]; p != nil && entry.NewerRV(p.RV, it.RV) || known && entry.NewerRV(now.rv, it.RV) {
		it.skip = true // the list has it twice
		return nil
	}
	if r.showing {
		it.change, it.needed, err = r.difference(it.Write, now)
		return err
	}
	same, err := r.same(it.Write, now)
	_, unheard := r.c.unheard[it.Key]
	it.needed = !same || unheard
	return err
}

// difference reports whether x is to be put into the collection, which holds now, and which change that makes: nil if
// nobody need be told.
func (r *replacement) difference(x *memtable.Write, now current) (change *Change, needed bool, err error) {
	_, unheard := r.c.unheard[x.Key]
	heard := now.found && !unheard
	if !x.Del {
		if same, err := r.same(x, now); err != nil || same && heard {
			return nil, false, err
		}
	}
	before, err := r.c.objectOf(x.Key, now)
	if err != nil {
		return nil, false, err
	}
	x.SameObject = !x.Del && before != nil && now.uid == x.UID && now.rv == x.RV && semanticallyEqual(before, x.Obj)
	switch {
	case x.Del && !heard:
	case x.Del:
		change = &Change{Type: cache.Deleted, Key: x.Key, Old: before, New: x.Obj}
	case !heard, before == nil: // what cannot be decoded was told to nobody
		change = &Change{Type: cache.Added, Key: x.Key, New: x.Obj}
	case !x.SameObject:
		change = &Change{Type: cache.Updated, Key: x.Key, Old: before, New: x.Obj}
	}
	return change, now.found || !x.Del, nil
}

// same reports whether x need not be written. Bodies are compared without their compression.
func (r *replacement) same(x *memtable.Write, now current) (bool, error) {
	if !now.found || now.uid != x.UID || now.rv != x.RV {
		return false, nil
	}
	switch {
	case !r.o.Rewrite:
		return x.RV != "", nil
	case now.x != nil:
		return bytes.Equal(now.x.Payload, x.Payload), nil
	case now.Encoding != r.c.codec.Name():
		return false, nil
	}
	b, err := r.c.body(now.objects, x.Key, now.Header, now.payload)
	if err == nil {
		b, err = r.c.plain(x.Key, b, nil)
	}
	switch {
	case errors.Is(err, entry.ErrDamaged):
		return false, err
	case err != nil: // what cannot be read is written anew
		return false, nil //nolint:nilerr // see above
	}
	return bytes.Equal(b.payload, x.Payload) && r.c.packer.Keeps(now.Header, x.Payload) && r.c.sealsAs(now.Header), nil
}

// settle notes what becomes of an item, once it was shown if it was to be.
func (r *replacement) settle(it *item, generation int) (skipped []Skipped) {
	switch {
	case it.skip:
		return nil
	case it.err != nil:
		r.leaveOut(leftOutOf(it.Write, it.err))
		if reportable(it.err) {
			skipped = []Skipped{{Key: it.Key, Err: it.err}}
		}
		// It is in the list, so it must not be deleted, unless it is an old state of which nobody has been told.
		if e, ok := r.events[it.Key]; !ok || !e.gone {
			delete(r.deletes, it.Key)
		}
		if _, unheard := r.c.unheard[it.Key]; unheard {
			r.deletes[it.Key] = len(it.Key)
		}
		return skipped
	}
	r.note(it.Write)
	delete(r.deletes, it.Key)
	r.unhold(it.Key)
	delete(r.events, it.Key) // the list has it in a newer state
	if it.needed && !r.showing {
		r.hold(&listed{Write: it.Write, generation: generation})
	}
	return nil
}

func (r *replacement) hold(p *listed) {
	p.Obj = nil
	r.puts[p.Key] = p
	r.bytes += p.Size()
}

func (r *replacement) unhold(key string) {
	if p := r.puts[key]; p != nil {
		r.bytes -= p.Size()
		delete(r.puts, key)
	}
}

// show puts the items that are needed into the collection, and returns the changes.
func (r *replacement) show(
	ctx context.Context, set *indexSet, items map[string]*item, keys []string,
) (changes []Change, err error) {
	var last []*memtable.Write
	for _, key := range keys {
		if it := items[key]; !it.skip && it.err == nil && it.needed {
			last = append(last, it.Write)
			if it.change != nil {
				changes = append(changes, *it.change)
			}
		}
	}
	return changes, r.c.takeIn(ctx, r, set, last, nil)
}

// takeIn puts writes into the memtable, where readers see all of them at once, with the Info that finish, which may be
// nil, makes of the one after them. It waits while too much is pending, and for no disk.
func (c *Collection) takeIn(
	ctx context.Context, r *replacement, set *indexSet, last []*memtable.Write, finish func(*Info) (*settled, error),
) error {
	if err := c.pause.wait(ctx); err != nil {
		return err
	}
	if err := c.waitRoom(ctx, false); err != nil {
		return err
	}
	c.front.Lock()
	defer c.front.Unlock()
	if err := c.store.takesIn(); err != nil {
		return err
	}
	switch {
	case c.closed:
		return fmt.Errorf("the collection has been closed: %w", ErrClosed)
	case set.generation != c.set.Load().generation:
		return errIndexesChanged
	}
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

// event folds in an event: over what is held, unless that is a newer listed state.
func (r *replacement) event(ctx context.Context, op Op) (Result, error) {
	for {
		set := r.c.set.Load()
		x, err := r.c.encoder(set).identify(op)
		it := &item{Write: x, err: err, needed: true}
		items := map[string]*item{x.Key: it}
		r.encode(set, items, []string{x.Key})
		if it.Del && it.err == nil && r.c.places.any() && it.Obj != nil {
			_ = encodeWrite(it.Write, r.c.codec) // without it the delete is told as the object was stored
		}
		if it.err != nil {
			r.leaveOut(leftOutOf(x, it.err))
			res := Result{Staged: true}
			if reportable(it.err) {
				res.Skipped = []Skipped{{Key: x.Key, Err: it.err}}
			}
			return res, nil
		}
		err = r.c.viewObjects(ctx, func(objects *bolt.Bucket, over *captured) error {
			now, err := r.c.current(objects, over, x.Key)
			if err == nil {
				err = r.weighEvent(it, now)
			}
			return err
		})
		if err != nil {
			return Result{}, err
		}
		if it.skip {
			return Result{Staged: true}, nil
		}
		res := Result{Staged: !r.showing}
		if r.showing {
			var last []*memtable.Write
			if it.needed {
				last = []*memtable.Write{x}
			}
			err := r.c.takeIn(ctx, r, set, last, nil)
			if errors.Is(err, errIndexesChanged) {
				continue
			}
			if err != nil {
				return Result{}, err
			}
			if it.change != nil {
				res.Changes = []Change{*it.change}
			}
		}
		r.noteEvent(x, set.generation)
		return r.showIfLarge(ctx, res)
	}
}

// weighEvent finds out what becomes of an event.
func (r *replacement) weighEvent(it *item, now current) error {
	known := r.listedAlready(it.Key, now)
	listed := ""
	if p := r.puts[it.Key]; p != nil && !p.event {
		listed = p.RV
	} else if _, evented := r.events[it.Key]; known && !evented {
		listed = now.rv
	}
	if entry.NewerRV(listed, it.RV) {
		it.skip = true
		return nil
	}
	if !r.showing {
		return nil
	}
	var err error
	it.change, it.needed, err = r.difference(it.Write, now)
	return err
}

// noteEvent notes an event that was shown, or holds it.
func (r *replacement) noteEvent(x *memtable.Write, generation int) {
	r.note(x)
	r.unhold(x.Key)
	delete(r.deletes, x.Key)
	r.events[x.Key] = watched{rv: x.RV, gone: x.Del}
	switch {
	case r.showing:
	case x.Del:
		r.deletes[x.Key] = x.Size()
	default:
		r.hold(&listed{Write: x, generation: generation, event: true})
	}
}

// showIfLarge shows what is held once it is too much, and from then on what comes.
func (r *replacement) showIfLarge(ctx context.Context, res Result) (Result, error) {
	if r.showing || r.bytes <= r.c.limits.held {
		return res, nil
	}
	r.showing, res.Staged = true, false
	for len(r.puts) > 0 {
		keys := slices.SortedFunc(maps.Keys(r.puts), strings.Compare)
		changes, skipped, err := r.apply(ctx, nil, keys, interrupt)
		if err != nil {
			r.showing = false // what is held stays so, and the next page tries again
			r.c.store.logger().V(2).Info("A list is held back for longer than it should be", "collection", r.c.id.String(),
				"err", err)
			res.Staged = true
			return res, nil //nolint:nilerr // the page has been taken in
		}
		res.Changes, res.Skipped = append(res.Changes, changes...), append(res.Skipped, skipped...)
		for _, key := range keys {
			r.unhold(key)
		}
	}
	return res, nil
}
