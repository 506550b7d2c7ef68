package store

import (
	"bytes"
	"errors"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// held is what a collection holds at one moment. It ends with the call that it was given to.
type held interface {
	// info returns the Info; its slices are shared.
	info() (Info, error)
	has(key string) bool
	// get returns the object under a key, or nil. It ends with the next call.
	get(key string) (heldObject, error)
	// after calls fn with the keys that follow the given one, in order, and about how many bytes each object takes, until
	// fn returns false.
	after(key string, fn func(key string, size int) bool) error
}

// heldObject is an object that a collection holds.
type heldObject interface {
	version() (uid, rv string)
	// object returns nil if it cannot be decoded.
	object() (runtime.Object, error)
	// sameBody reports whether x need not be written: it is what is held, to the byte, and stored as it is to be.
	sameBody(x *memtable.Write) (bool, error)
}

// fileHeld is what a file holds, and what is pending over it, in one transaction.
type fileHeld struct {
	c       *Collection
	bucket  *bolt.Bucket
	objects *bolt.Bucket
	over    *captured
	last    storedObject // that get has returned
}

func (h *fileHeld) info() (Info, error) {
	if h.over.Unsaved {
		return h.over.Info.Info, nil
	}
	st, err := getState(h.bucket, h.c.name)
	return st.Info, err
}

func (h *fileHeld) has(key string) bool {
	if x := h.over.Get(key); x != nil {
		return !x.Del
	}
	return h.objects.Get([]byte(key)) != nil
}

func (h *fileHeld) get(key string) (heldObject, error) {
	if x := h.over.Get(key); x != nil {
		if x.Del {
			return nil, nil
		}
		return pendingObject{x}, nil
	}
	s, err := h.c.stored(h.objects, key)
	if err != nil || !s.found {
		return nil, err
	}
	h.last = storedObject{h.c, key, s}
	return &h.last, nil
}

func (h *fileHeld) after(key string, fn func(key string, size int) bool) error {
	s := scanOver(h.objects, h.over, key)
	for key, data, x, ok := s.next(); ok; key, data, x, ok = s.next() {
		size := len(key) + len(data)
		if x != nil {
			size += x.PayloadSize
		}
		if !fn(key, size) {
			break
		}
	}
	return s.err()
}

// pendingObject is an object that is pending.
type pendingObject struct{ *memtable.Write }

func (o pendingObject) version() (uid, rv string) { return o.UID, o.RV }

func (o pendingObject) object() (runtime.Object, error) { return o.Obj, nil }

func (o pendingObject) sameBody(x *memtable.Write) (bool, error) {
	return bytes.Equal(o.Payload, x.Payload), nil
}

// storedObject is an object that the file has.
type storedObject struct {
	c   *Collection
	key string
	stored
}

func (o *storedObject) version() (uid, rv string) { return o.UID, o.RV }

// object decodes what is stored, unless it is in memory.
func (o *storedObject) object() (runtime.Object, error) { return o.c.before(o.key, o.stored) }

// sameBody compares bodies without their compression.
func (o *storedObject) sameBody(x *memtable.Write) (bool, error) {
	if o.Encoding != o.c.codec.Name() {
		return false, nil
	}
	b, err := o.c.body(o.objects, o.key, o.Header, o.payload)
	if err == nil {
		b, err = o.c.plain(o.key, b, nil)
	}
	switch {
	case errors.Is(err, entry.ErrDamaged):
		return false, err
	case err != nil: // what cannot be read is written anew
		return false, nil //nolint:nilerr // see above
	}
	return bytes.Equal(b.payload, x.Payload) && o.c.packer.Keeps(o.Header, x.Payload) && o.c.sealsAs(o.Header), nil
}
