package engine

import (
	"bytes"
	"cmp"
	"errors"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/crypt"
)

// HeldFile implements Held for a collection in a file: one transaction, combined with the memtable.
type HeldFile struct {
	Read            *Reader
	Bucket, Objects *bolt.Bucket
	Over            *Captured
	Compressor      *crypt.Compressor
	// Object returns the object of a stored record, from memory if it is there.
	Object func(key string, s StoredRecord) (runtime.Object, error)

	last storedObject // last is the result of the last Get.
}

func (h *HeldFile) Info() (entry.Info, error) {
	if h.Over.Dirty {
		return h.Over.Info.Info, nil
	}
	st, err := GetState(h.Bucket, h.Read.Name)
	return st.Info, err
}

func (h *HeldFile) Has(key string) bool {
	if x := h.Over.Get(key); x != nil {
		return !x.Del
	}
	return h.Objects.Get([]byte(key)) != nil
}

func (h *HeldFile) Get(key string) (HeldObject, error) {
	if x := h.Over.Get(key); x != nil {
		if x.Del {
			return nil, nil
		}
		return pendingObject{x}, nil
	}
	s, err := h.Read.Stored(h.Objects, key)
	if err != nil || !s.Found {
		return nil, err
	}
	h.last = storedObject{h, key, s}
	return &h.last, nil
}

func (h *HeldFile) After(key string, fn func(key string, size int) bool) error {
	s := ScanMerged(h.Objects, h.Over, key)
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

type pendingObject struct{ *Write }

func (o pendingObject) Version() (uid, rv string) { return o.UID, o.RV }

func (o pendingObject) Object() (runtime.Object, error) { return o.Obj, nil } // Obj may be an *entry.Undecoded.

func (o pendingObject) SameBody(x *Write) (bool, error) {
	return o.Encoding == x.Encoding && bytes.Equal(o.Payload, x.Payload), nil
}

func (o pendingObject) SameTerms(set *IndexSet, x *Write) (bool, error) {
	return set.SameTerms(o.Terms, x.Terms), nil
}

func (o pendingObject) InForm(*Write) bool { return true } // The next commit writes a new record.

type storedObject struct {
	in  *HeldFile
	key string
	StoredRecord
}

func (o *storedObject) Version() (uid, rv string) { return o.UID, o.RV }

func (o *storedObject) Object() (runtime.Object, error) { return o.in.Object(o.key, o.StoredRecord) }

func (o *storedObject) SameBody(x *Write) (bool, error) {
	if o.Encoding != cmp.Or(x.Encoding, o.in.Read.Codec.Name()) {
		return false, nil
	}
	b, err := o.in.Read.Coder.OpenPlain(o.Objects, o.key, o.Header, o.Payload)
	switch {
	case errors.Is(err, entry.ErrDamaged):
		return false, err
	case err != nil: // A record with an unreadable payload is rewritten.
		return false, nil //nolint:nilerr // A record with an unreadable payload is rewritten.
	}
	return bytes.Equal(b.Payload, x.Payload), nil
}

func (o *storedObject) SameTerms(set *IndexSet, x *Write) (bool, error) {
	terms, err := o.in.Read.Coder.Terms(o.key, o.Header)
	return err == nil && set.SameTerms(terms, x.Terms), err
}

func (o *storedObject) InForm(x *Write) bool {
	return o.in.Compressor.Keeps(o.Header, x.Payload) && o.in.Read.Coder.Keeps(o.Header)
}
