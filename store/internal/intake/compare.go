package intake

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// item is an object of a page, or of an event, on its way into the collection.
type item struct {
	*memtable.Write
	err    error         // why the object is left out; nil if it is not
	skip   bool          // true if the collection has, or will have, a state that is as new
	filled bool          // true if the payload and the terms have been computed
	termed bool          // true if the terms have been computed
	needed bool          // true if the collection has another state, or none
	held   bool          // true for an item without an object: the collection has its UID and resourceVersion
	change *entry.Change // the change to report; nil if there is none, or if the item is held
	// unreadable says that the item is left out because it cannot be decoded, and that the collection holds a state of it
	// which cannot be decoded either. That is deleted: else each reader would meet it.
	unreadable bool
}

// listedAlready reports whether the list or an event has brought the key, and the collection has that state.
func (r *Replacement) listedAlready(key string, now HeldObject) bool {
	_, deleted := r.deletes[key]
	_, evented := r.events[key]
	return now != nil && !deleted && r.puts[key] == nil && (key <= r.last || evented)
}

// weigh sets skip, needed and change of an item. now is the state that the collection has; nil if there is none.
func (r *Replacement) weigh(it *item, now HeldObject) (err error) {
	listed := ""
	if r.listedAlready(it.Key, now) {
		_, listed = now.Version()
	}
	if e, ok := r.events[it.Key]; ok && !entry.NewerRV(it.RV, e.rv) {
		it.skip = true // the event happened after the page was read
		return nil
	}
	if p := r.puts[it.Key]; p != nil && entry.NewerRV(p.RV, it.RV) || entry.NewerRV(listed, it.RV) {
		it.skip = true // the list has the key twice, and this state is older
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
	_, unheard := r.in.unheard[it.Key]
	it.needed = !same || unheard
	return err
}

// difference reports whether x has to be put into the collection, whose present state is now, and returns the change to
// report, or nil. termed says that x has its terms.
func (r *Replacement) difference(
	x *memtable.Write, termed bool, now HeldObject,
) (change *entry.Change, needed bool, err error) {
	_, unheard := r.in.unheard[x.Key]
	heard := now != nil && !unheard
	if !x.Del {
		if same, err := r.same(x, termed, now); err != nil || same && heard {
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
	case x.Del && (!heard || r.unreadable[x.Key]):
	case x.Del:
		change = &entry.Change{Type: cache.Deleted, Key: x.Key, Old: before, OldRef: refOf(x.Key, now), New: x.Obj}
	case !heard, before == nil: // an object that cannot be decoded was reported to nobody
		change = &entry.Change{Type: cache.Added, Key: x.Key, New: x.Obj}
	case !x.SameObject:
		change = &entry.Change{Type: cache.Updated, Key: x.Key, Old: before, OldRef: refOf(x.Key, now), New: x.Obj}
	}
	return change, now != nil || !x.Del, nil
}

// same reports whether x need not be written: now has the same body and, if x has its terms, the same terms. Equal UID
// and resourceVersion prove nothing. They belong to different states after a rewind, and to one state that is shown
// differently after a change of the schema. If the list rewrites, the record must have today's form as well.
func (r *Replacement) same(x *memtable.Write, termed bool, now HeldObject) (bool, error) {
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

func sameVersion(x *memtable.Write, now HeldObject) bool {
	uid, rv := now.Version()
	return uid == x.UID && rv == x.RV
}
