package engine

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

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
func (r *Replacement) listedAlready(key string, now HeldObject) bool {
	_, deleted := r.deletes[key]
	_, evented := r.events[key]
	return now != nil && !deleted && r.puts[key] == nil && (key <= r.last || evented)
}

// classify sets skip, needed and change of an item from the list. now is the collection's current object, or nil.
func (r *Replacement) classify(it *item, now HeldObject) (err error) {
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
	_, unreported := r.in.unreported[it.Key]
	it.needed = !same || unreported
	return err
}

// difference returns whether x must be put into the collection, and the change to report, or nil. now is the
// collection's current object. termed is true if x has its terms.
func (r *Replacement) difference(
	x *Write, termed bool, now HeldObject,
) (change *entry.Change, needed bool, err error) {
	_, unreported := r.in.unreported[x.Key]
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
func (r *Replacement) same(x *Write, termed bool, now HeldObject) (bool, error) {
	if now == nil || !sameVersion(x, now) {
		return false, nil
	}
	if same, err := now.SameBody(x); err != nil || !same {
		return false, err
	}
	if termed {
		if same, err := now.SameTerms(r.in.Set.Load(), x); err != nil || !same {
			return false, err
		}
	}
	return !r.o.Rewrite || now.InForm(x), nil
}

func refOf(key string, now HeldObject) entry.ObjectRef {
	uid, rv := now.Version()
	return entry.ObjectRef{Key: key, UID: uid, ResourceVersion: rv}
}

func sameVersion(x *Write, now HeldObject) bool {
	uid, rv := now.Version()
	return uid == x.UID && rv == x.RV
}
