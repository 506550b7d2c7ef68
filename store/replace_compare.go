package store

import (
	"bytes"
	"errors"

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
