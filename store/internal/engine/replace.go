package engine

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// ReplaceLimits bound the memory and the transactions of a relist, in encoded bytes.
type ReplaceLimits struct {
	Held int // Held is the size of the differences that a list holds before it applies them page by page.
	Step int // Step is the size of the old and new objects that one call of Replacement.Commit applies.
}

// ReplaceOptions are the options of a list. Package store exports and documents them.
type ReplaceOptions struct {
	Rewrite    bool
	Attributes entry.Attributes
}

var (
	// ErrReplacing means that a list is open, so that other writes are refused. Package store exports it.
	ErrReplacing   = errors.New("a list is being taken in")
	errReplaceDone = errors.New("the list has been committed or aborted; begin another")
)

// Replacement makes a collection equal to a list; see store.Replacement. Its methods must not be called concurrently:
// there is one writer.
//
// An item that differs from the collection is a difference. Differences are held until the list ends, so that readers
// see either the old state or the new one. If they get too large, each difference is put into the collection
// immediately (showing), and Info.MustRelist is set until the end. In an incomplete collection, differences are shown
// from the start. Deletes wait for the end, since the list need not be in key order.
//
// Every key up to last is decided: it is in puts or deletes, or the collection has the listed state. A list that is not
// in key order only costs deletes that are added and removed again.
type Replacement struct {
	c    *Collection
	o    ReplaceOptions
	done bool
	// showing is true if differences are put into the collection immediately.
	showing bool
	typed   bool               // typed is true once a listed object's payload depends on its Go type.
	changed bool               // changed is true once a write of the list has changed an object.
	last    string             // last is the highest key that was compared with the collection.
	puts    map[string]*listed // puts are the writes that are held until Commit, by key.
	deletes map[string]int     // deletes are the keys missing from the list so far, with their objects' sizes in bytes.
	bytes   int                // bytes is the size of the writes in puts.
	// unreadable holds keys in deletes whose objects are in the list but undecodable. They were never reported.
	unreadable map[string]bool
	events     map[string]watched // events are the watch events during the list, by key.
	revised    bool               // revised is true after reviseDictionary.
	gathered
	end listEnd
	// As edits the Info that is stored at the end of the list, for an import, which sets the Info of its file. If As is
	// nil, the collection is complete at the end.
	As func(*entry.Info)
}

// listed is an object from the list or from an event that must be put into the collection. If it has a Payload, its Obj
// is nil until the put.
type listed struct {
	*Write
	generation int  // generation is the Set.Generation with which the terms were computed.
	event      bool // event is true for an object from a watch event.
}

// watched is a watch event that arrived during the list. Older states of its object in the list are ignored.
type watched struct {
	rv   string
	gone bool
}

// gathered collects, during a list, the values of Info.Newest and Info.LeftOut that are stored at its end.
type gathered struct {
	newest []entry.ObjectRef
	refused
}

// Begin begins a list; see store.Interface.BeginReplace.
//
// If an earlier process stored objects of an incomplete collection, they were reported to no handler, or only to
// durable handlers. So the changes of the list include all listed objects, and stored objects that the list lacks are
// removed silently. Objects that this process stored have been reported: a second attempt of a cold start is a diff
// against the first one.
func (c *Collection) Begin(ctx context.Context, o ReplaceOptions) (*Replacement, error) {
	r := &Replacement{
		c: c, o: o,
		puts: map[string]*listed{}, deletes: map[string]int{}, unreadable: map[string]bool{}, events: map[string]watched{},
	}
	err := c.setReplacing(r)
	if err == nil {
		if r.showing, err = c.beginList(ctx); err != nil {
			c.endReplacing()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take in a list of %s: %w", c.ID, err)
	}
	return r, nil
}

// beginList returns true if the list must show its differences immediately: the collection is incomplete, and this
// process has reported no changes of it.
func (c *Collection) beginList(ctx context.Context) (showing bool, err error) {
	info, err := c.Info(ctx)
	if err != nil || info.Complete || c.reported.Load() {
		return false, err
	}
	keys, err := c.Keys(ctx)
	c.unreported = make(map[string]struct{}, len(keys))
	for _, key := range keys {
		c.unreported[key] = struct{}{}
	}
	return true, err
}

// setReplacing makes r the open replacement. Other methods that write fail with ErrReplacing until endReplacing.
func (c *Collection) setReplacing(r *Replacement) error {
	c.front.Lock()
	defer c.front.Unlock()
	if err := c.checkOpen(); err != nil {
		return err
	}
	if c.replacing != nil {
		return ErrReplacing
	}
	c.replacing = r
	return nil
}

func (c *Collection) endReplacing() {
	c.front.Lock()
	defer c.front.Unlock()
	c.replacing = nil
}

// usable returns an error for a list that was committed or aborted.
func (r *Replacement) usable() error {
	if r.done {
		return errReplaceDone
	}
	return nil
}

// Page adds the next items of the list; see store.Replacement.
func (r *Replacement) Page(
	ctx context.Context, items []runtime.Object, leftOut ...entry.LeftOut,
) (entry.Result, error) {
	if err := r.usable(); err != nil {
		return entry.Result{}, err
	}
	ops := opsOf(items, leftOut)
	res, err := r.page(ctx, func() (map[string]*item, []entry.Skipped) { return r.identify(ops) })
	if err != nil {
		return res, fmt.Errorf("take in %d items of a list of %s: %w", len(items), r.c.ID, err)
	}
	return res, nil
}

// Known adds items of the list by reference; see store.Replacement.
func (r *Replacement) Known(
	ctx context.Context, refs []entry.ObjectRef,
) (missing []entry.ObjectRef, res entry.Result, err error) {
	if err = r.usable(); err == nil {
		missing, res, err = r.known(ctx, refs)
	}
	if err != nil {
		return nil, res, fmt.Errorf("take in %d references of a list of %s: %w", len(refs), r.c.ID, err)
	}
	return missing, res, nil
}

// Entries adds encoded objects with distinct keys as the next items of the list. They are neither decoded nor indexed.
// So until all are committed, the collection must have no reader, and it must never have an index function. r keeps the
// payloads.
func (r *Replacement) Entries(ctx context.Context, all []entry.Entry) error {
	if err := r.usable(); err != nil {
		return err
	}
	_, err := r.page(ctx, func() (map[string]*item, []entry.Skipped) {
		items := make(map[string]*item, len(all))
		for _, e := range all {
			items[e.Key] = &item{filled: true, Write: &Write{Key: e.Key, UID: e.UID, RV: e.ResourceVersion,
				Payload: e.Payload, PayloadSize: len(e.Payload), Encoding: e.Encoding}}
		}
		return items, nil
	})
	return err
}

// Event adds a watched event; see store.Replacement.
func (r *Replacement) Event(ctx context.Context, op entry.Op) (entry.Result, error) {
	if err := r.usable(); err != nil {
		return entry.Result{}, err
	}
	res, err := r.event(ctx, op)
	if err != nil {
		return res, fmt.Errorf("take in an event into a list of %s: %w", r.c.ID, err)
	}
	return res, nil
}

// Commit puts held differences into the collection, a part of them with each call; see store.Replacement.
func (r *Replacement) Commit(ctx context.Context, b entry.Batch) (entry.Result, error) {
	if err := r.usable(); err != nil {
		return entry.Result{}, err
	}
	if len(b.Ops) > 0 {
		return entry.Result{}, errBatchOps
	}
	res, err := r.commit(ctx, b)
	if err != nil {
		return res, fmt.Errorf("commit a list of %s: %w", r.c.ID, err)
	}
	if !res.More {
		r.close()
		r.c.reload()
	}
	return res, nil
}

// Abort drops the held differences; see store.Replacement.
func (r *Replacement) Abort() {
	if !r.done {
		r.close()
	}
}

func (r *Replacement) close() {
	r.done = true
	r.c.endReplacing()
}

func (g *gathered) note(x *Write) {
	if x.Del {
		g.newest = DropRef(g.newest, x.Key)
		g.noteGone(x)
		return
	}
	g.newest = OfferRef(g.newest, entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV}, newestRefsGathered)
}

// finish sets st to the state after a complete list at b.ResourceVersion. For held, see refused.finish.
func (g *gathered) finish(
	st *entry.Info, o ReplaceOptions, b entry.Batch, held func(key string) (ref entry.ObjectRef, found bool, err error),
) error {
	if err := g.refused.finish(st, o.Rewrite, held); err != nil {
		return err
	}
	st.Complete, st.Attributes = true, o.Attributes
	st.ResourceVersion, st.MustRelist = "", ""
	if b.ResourceVersion == "" {
		st.MustRelist = "the list came without a resourceVersion"
	}
	advance(st, b)
	st.Newest = nil
	for _, ref := range g.newest {
		if len(st.Newest) == NewestRefs {
			break
		}
		if l, left := g.objects[ref.Key]; left {
			if entry.NewerRV(l.ResourceVersion, ref.ResourceVersion) {
				continue // The refused state of the object is newer than ref.
			}
			if now, found, err := held(ref.Key); err != nil {
				return err
			} else if !found || now != ref {
				continue // The state ref of the object could not be stored.
			}
		}
		st.Newest = append(st.Newest, ref)
	}
	return nil
}

func opsOf(items []runtime.Object, leftOut []entry.LeftOut) []entry.Op {
	ops := make([]entry.Op, 0, len(items)+len(leftOut))
	for _, item := range items {
		ops = append(ops, entry.Op{Object: item})
	}
	for _, l := range leftOut {
		ops = append(ops, entry.Op{Type: entry.LeaveOut, LeftOut: l})
	}
	return ops
}

// item is an object of a page or of an event that may be put into the collection.
type item struct {
	*Write
	err    error         // err is the reason why the object is left out, or nil.
	skip   bool          // skip is true if the collection has, or will have, a state at least as new.
	filled bool          // filled is true once the payload and the index terms have been computed.
	termed bool          // termed is true once the index terms have been computed.
	needed bool          // needed is true if the collection lacks this state of the object.
	held   bool          // held is true for an item by reference: the collection has the state with this UID and RV.
	change *entry.Change // change is the change to report, or nil.
	// unreadable is true if neither the object nor the stored state of the object can be decoded. The stored state is then
	// deleted, so that no reader finds it.
	unreadable bool
}

// listedAlready reports whether the key was in the list or in an event before, and the collection has that state.
func (r *Replacement) listedAlready(key string, now heldObject) bool {
	_, deleted := r.deletes[key]
	_, evented := r.events[key]
	return now != nil && !deleted && r.puts[key] == nil && (key <= r.last || evented)
}

// classify sets skip, needed and change of an item from the list. now is the collection's current object, or nil.
func (r *Replacement) classify(it *item, now heldObject) (err error) {
	listed := ""
	if r.listedAlready(it.Key, now) {
		_, listed = now.Version()
	}
	if e, ok := r.events[it.Key]; ok && !entry.NewerRV(it.RV, e.rv) {
		it.skip = true // The event is newer than the page.
		return nil
	}
	if p := r.puts[it.Key]; p != nil && entry.NewerRV(p.RV, it.RV) || entry.NewerRV(listed, it.RV) {
		it.skip = true // The list has the key twice, and this state is the older one.
		return nil
	}
	if it.held {
		return nil
	}
	if r.showing {
		it.change, it.needed, err = r.difference(it.Write, it.termed, now)
		return err
	}
	same, err := r.same(it.Write, it.termed, now)
	_, unreported := r.c.unreported[it.Key]
	it.needed = !same || unreported
	return err
}

// difference returns whether x must be put into the collection, and the change to report, or nil. now is the
// collection's current object. termed is true if x has its terms.
func (r *Replacement) difference(
	x *Write, termed bool, now heldObject,
) (change *entry.Change, needed bool, err error) {
	_, unreported := r.c.unreported[x.Key]
	reported := now != nil && !unreported
	if !x.Del {
		if same, err := r.same(x, termed, now); err != nil || same && reported {
			return nil, false, err
		}
	}
	var before runtime.Object
	if now != nil {
		if before, err = now.Object(); err != nil {
			return nil, false, err
		}
	}
	x.SameObject = !x.Del && before != nil && sameVersion(x, now) && SemanticallyEqual(before, x.Obj)
	switch {
	case x.Del && (!reported || r.unreadable[x.Key]):
	case x.Del:
		change = &entry.Change{Type: cache.Deleted, Key: x.Key, Old: before, OldRef: refOf(x.Key, now), New: x.Obj}
	case !reported, before == nil: // An object that cannot be decoded was never reported.
		change = &entry.Change{Type: cache.Added, Key: x.Key, New: x.Obj}
	case !x.SameObject:
		change = &entry.Change{Type: cache.Updated, Key: x.Key, Old: before, OldRef: refOf(x.Key, now), New: x.Obj}
	}
	return change, now != nil || !x.Del, nil
}

// same reports whether x need not be written: now has the same payload and, if termed is true, the same terms. Equal
// UID and resourceVersion are not enough. After a rewind they may belong to different states, and after a change of the
// schema the server may return another payload for one state. If the list rewrites, the record must also be compressed
// and sealed as a new record would be.
func (r *Replacement) same(x *Write, termed bool, now heldObject) (bool, error) {
	if now == nil || !sameVersion(x, now) {
		return false, nil
	}
	if same, err := now.SameBody(x); err != nil || !same {
		return false, err
	}
	if termed {
		if same, err := now.SameTerms(r.c.Set.Load(), x); err != nil || !same {
			return false, err
		}
	}
	return !r.o.Rewrite || now.InForm(x), nil
}

func refOf(key string, now heldObject) entry.ObjectRef {
	uid, rv := now.Version()
	return entry.ObjectRef{Key: key, UID: uid, ResourceVersion: rv}
}

func sameVersion(x *Write, now heldObject) bool {
	uid, rv := now.Version()
	return uid == x.UID && rv == x.RV
}
