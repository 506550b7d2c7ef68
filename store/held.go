package store

import (
	"bytes"
	"errors"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/intake"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/read"
	"github.com/larder-dev/larder/store/internal/state"
)

// fileHeld implements intake.Held for a Collection: the file in one transaction, with the memtable over it.
type fileHeld struct {
	c       *Collection
	bucket  *bolt.Bucket
	objects *bolt.Bucket
	over    *read.Captured
	last    storedObject // the object that get returned last
}

func (h *fileHeld) Info() (entry.Info, error) {
	if h.over.Dirty {
		return h.over.Info.Info, nil
	}
	st, err := state.Get(h.bucket, h.c.read.Name)
	return st.Info, err
}

func (h *fileHeld) Has(key string) bool {
	if x := h.over.Get(key); x != nil {
		return !x.Del
	}
	return h.objects.Get([]byte(key)) != nil
}

func (h *fileHeld) Get(key string) (intake.HeldObject, error) {
	if x := h.over.Get(key); x != nil {
		if x.Del {
			return nil, nil
		}
		return pendingObject{x}, nil
	}
	s, err := h.c.read.Stored(h.objects, key)
	if err != nil || !s.Found {
		return nil, err
	}
	h.last = storedObject{h.c, key, s}
	return &h.last, nil
}

func (h *fileHeld) After(key string, fn func(key string, size int) bool) error {
	s := read.ScanOver(h.objects, h.over, key)
	for key, data, x, ok := s.Next(); ok; key, data, x, ok = s.Next() {
		size := len(key) + len(data)
		if x != nil {
			size += x.PayloadSize
		}
		if !fn(key, size) {
			break
		}
	}
	return s.Err()
}

// pendingObject is an object in the memtable.
type pendingObject struct{ *memtable.Write }

func (o pendingObject) Version() (uid, rv string) { return o.UID, o.RV }

func (o pendingObject) Object() (runtime.Object, error) { return o.Obj, nil }

func (o pendingObject) SameBody(x *memtable.Write) (bool, error) {
	return bytes.Equal(o.Payload, x.Payload), nil
}

// storedObject is an object in the file.
type storedObject struct {
	c   *Collection
	key string
	read.Stored
}

func (o *storedObject) Version() (uid, rv string) { return o.UID, o.RV }

// Object returns the object from memory if it is there, and else decodes the stored record.
func (o *storedObject) Object() (runtime.Object, error) { return o.c.before(o.key, o.Stored) }

// SameBody compares bodies without their compression.
func (o *storedObject) SameBody(x *memtable.Write) (bool, error) {
	if o.Encoding != o.c.read.Codec.Name() {
		return false, nil
	}
	b, err := o.c.read.Coder.OpenPlain(o.Objects, o.key, o.Header, o.Payload)
	switch {
	case errors.Is(err, entry.ErrDamaged):
		return false, err
	case err != nil: // a body that cannot be read is rewritten
		return false, nil //nolint:nilerr // see above
	}
	same := bytes.Equal(b.Payload, x.Payload)
	return same && o.c.compressor.Keeps(o.Header, x.Payload) && o.c.read.Coder.Keeps(o.Header), nil
}
