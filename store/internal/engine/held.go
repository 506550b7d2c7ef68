package engine

import (
	"bytes"
	"cmp"
	"errors"

	bolt "go.etcd.io/bbolt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/format"
)

// held is a snapshot of a collection. It is valid until the function that received it returns.
type held interface {
	// Info returns the Info. Its slices are shared and must not be modified.
	Info() (entry.Info, error)
	Has(key string) bool
	// Get returns the object with the key, or nil. The object is valid until the next call of Get.
	Get(key string) (heldObject, error)
	// After calls fn with the keys after key, in order, and their objects' approximate sizes, until fn returns false.
	After(key string, fn func(key string, size int) bool) error
}

// heldObject is an object in a collection.
type heldObject interface {
	Version() (uid, rv string)
	// Object returns the decoded object, or nil for an undecodable one.
	Object() (runtime.Object, error)
	// SameBody compares the payloads of the held object and x, or the decoded objects in a collection without a codec.
	SameBody(x *Write) (bool, error)
	// SameTerms reports whether the held object has the same index terms as x in the indexes of set. It ignores indexes
	// that are not ready in the file, because the build of an index sets the terms of all records.
	SameTerms(set *IndexSet, x *Write) (bool, error)
	// InForm reports whether the held payload is compressed and sealed as an equal payload in x would be.
	InForm(x *Write) bool
}

// heldFile implements held for a collection in a file: one transaction, combined with the memtable.
type heldFile struct {
	c               *Collection
	bucket, objects *bolt.Bucket
	over            *Captured
	last            storedObject // last is the result of the last Get.
}

func (h *heldFile) Info() (entry.Info, error) {
	if h.over.Dirty {
		return h.over.Info.Info, nil
	}
	st, err := GetState(h.bucket, h.c.Read.Name)
	return st.Info, err
}

func (h *heldFile) Has(key string) bool {
	if x := h.over.Get(key); x != nil {
		return !x.Del
	}
	return h.objects.Get([]byte(key)) != nil
}

func (h *heldFile) Get(key string) (heldObject, error) {
	if x := h.over.Get(key); x != nil {
		if x.Del {
			return nil, nil
		}
		return pendingObject{x}, nil
	}
	s, err := h.c.Read.Stored(h.objects, key)
	if format.IsDamagedRecord(err) {
		s, err = StoredRecord{Found: true}, nil // It equals no object, so a list writes the record anew.
	}
	if err != nil || !s.Found {
		return nil, err
	}
	h.last = storedObject{h, key, s}
	return &h.last, nil
}

func (h *heldFile) After(key string, fn func(key string, size int) bool) error {
	s := ScanMerged(h.objects, h.over, key)
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
	in  *heldFile
	key string
	StoredRecord
}

func (o *storedObject) Version() (uid, rv string) { return o.UID, o.RV }

func (o *storedObject) Object() (runtime.Object, error) {
	return o.in.c.storedObject(o.key, o.StoredRecord)
}

func (o *storedObject) SameBody(x *Write) (bool, error) {
	if o.Encoding != cmp.Or(x.Encoding, o.in.c.Read.Codec.Name()) {
		return false, nil
	}
	b, err := o.in.c.Read.Coder.OpenPlain(o.Objects, o.key, o.Header, o.Payload)
	switch {
	case errors.Is(err, entry.ErrDamaged) && !format.IsDamagedRecord(err):
		return false, err
	case err != nil: // A record with an unreadable payload is rewritten.
		return false, nil //nolint:nilerr // A record with an unreadable payload is rewritten.
	}
	return bytes.Equal(b.Payload, x.Payload), nil
}

func (o *storedObject) SameTerms(set *IndexSet, x *Write) (bool, error) {
	terms, err := o.in.c.Read.Coder.Terms(o.key, o.Header)
	return err == nil && set.SameTerms(terms, x.Terms), err
}

func (o *storedObject) InForm(x *Write) bool {
	return o.in.c.Compressor.Keeps(o.Header, x.Payload) && o.in.c.Read.Coder.Keeps(o.Header)
}

// OldRecord is a copy of the file's record under a key, before a write of the key replaces it.
type OldRecord struct {
	Record // DecodeOld sets Record.Obj.
	// Found is false without a record; the other fields are zero then.
	Found bool
	// unreadable is true if the record is damaged, or if this program cannot decode it. Then no reader has seen its
	// object. The header of a damaged record is zero.
	unreadable bool
}

// CopyOld copies the file's record under key out of its transaction. An error wraps entry.ErrDamaged.
func (r *Reader) CopyOld(objects *bolt.Bucket, key string) (o OldRecord, err error) {
	data := objects.Get([]byte(key))
	if data == nil {
		return o, nil
	}
	o.Found = true
	o.Record, err = r.CopyRecord(objects, key, data, nil)
	if err != nil && (!errors.Is(err, entry.ErrDamaged) || format.IsDamagedRecord(err)) {
		o.unreadable = true
		o.Header, err = format.ParseHeader(r.Name, key, data)
	}
	if format.IsDamagedRecord(err) {
		err = nil
	}
	return o, err
}

// DecodeOld sets the objects of the copied records. It decodes the records for which now returns true, on all cores,
// and the other objects on demand. The object of an undecodable record stays nil.
func (r *Reader) DecodeOld(all []OldRecord, now func(i int) bool) {
	cost := 0
	for i, o := range all {
		if o.Found && now(i) {
			cost += 4<<10 + o.Body.Size
		}
	}
	base.Parallel(len(all), cost, func(i int) {
		o := &all[i]
		switch {
		case !o.Found, o.unreadable:
		case now(i):
			_ = base.Try("the codec", func() (err error) {
				o.Obj, err = r.decode(o.Record)
				return err
			})
		default:
			o.Obj = r.undecoded(o.Record)
		}
	})
}

func (r *Reader) undecoded(record Record) *entry.Undecoded {
	var m metav1.ObjectMeta
	m.Namespace, m.Name, _ = cache.SplitMetaNamespaceKey(record.Key)
	m.UID, m.ResourceVersion = types.UID(record.UID), record.RV
	return entry.NewUndecoded(&entry.UndecodedKind{
		Decode: func(string, []byte) (runtime.Object, error) { return r.decode(record) },
	}, metav1.TypeMeta{}, m, record.Body.Encoding, nil)
}
