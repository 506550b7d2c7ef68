package store

import (
	"bytes"
	"errors"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// held is a consistent view of a collection. It is valid until the function that it was passed to returns.
type held interface {
	// info returns the Info. Its slices are shared and must not be modified.
	info() (entry.Info, error)
	has(key string) bool
	// get returns the object with that key, or nil if there is none. The object is valid until the next call of get.
	get(key string) (heldObject, error)
	// after calls fn with each key that follows the given one, in order, and the approximate size of its object in bytes,
	// until fn returns false.
	after(key string, fn func(key string, size int) bool) error
}

// heldObject is an object that a collection holds.
type heldObject interface {
	version() (uid, rv string)
	// object returns nil if it cannot be decoded.
	object() (runtime.Object, error)
	// sameBody reports whether x need not be written: the held body has the same bytes, and is compressed and sealed as x
	// would be.
	sameBody(x *memtable.Write) (bool, error)
}

// fileHeld implements held for a Collection: the file in one transaction, with the memtable over it.
type fileHeld struct {
	c       *Collection
	bucket  *bolt.Bucket
	objects *bolt.Bucket
	over    *captured
	last    storedObject // the object that get returned last
}

func (h *fileHeld) info() (entry.Info, error) {
	if h.over.Dirty {
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

// pendingObject is an object in the memtable.
type pendingObject struct{ *memtable.Write }

func (o pendingObject) version() (uid, rv string) { return o.UID, o.RV }

func (o pendingObject) object() (runtime.Object, error) { return o.Obj, nil }

func (o pendingObject) sameBody(x *memtable.Write) (bool, error) {
	return bytes.Equal(o.Payload, x.Payload), nil
}

// storedObject is an object in the file.
type storedObject struct {
	c   *Collection
	key string
	stored
}

func (o *storedObject) version() (uid, rv string) { return o.UID, o.RV }

// object returns the object from memory if it is there, and else decodes the stored record.
func (o *storedObject) object() (runtime.Object, error) { return o.c.before(o.key, o.stored) }

// sameBody compares bodies without their compression.
func (o *storedObject) sameBody(x *memtable.Write) (bool, error) {
	if o.Encoding != o.c.codec.Name() {
		return false, nil
	}
	b, err := o.c.coder.OpenPlain(o.objects, o.key, o.Header, o.payload)
	switch {
	case errors.Is(err, entry.ErrDamaged):
		return false, err
	case err != nil: // a body that cannot be read is rewritten
		return false, nil //nolint:nilerr // see above
	}
	return bytes.Equal(b.Payload, x.Payload) && o.c.compressor.Keeps(o.Header, x.Payload) && o.c.coder.Keeps(o.Header), nil
}
